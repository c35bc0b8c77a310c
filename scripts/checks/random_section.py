"""Random graphs from their seeds, against NumPy. Odd seeds run every kernel in parallel."""

from __future__ import annotations

import contextlib
import random

from support.random_graphs.case import all_parallel, describe, mismatches, run_graph
from support.random_graphs.graphs import random_graph

from . import sample

GRAPHS = 10_000


def cases(seed: int) -> list[str]:
    return sample.draw(GRAPHS, seed)


def run(seed: str) -> dict:
    graph = random_graph(random.Random(int(seed)))
    with all_parallel() if int(seed) % 2 else contextlib.nullcontext():
        wrong = mismatches(graph, run_graph(graph))
    return {"wrong": wrong, "graph": describe(graph)} if wrong else {"wrong": []}
