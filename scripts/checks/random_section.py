"""Random graphs from their seeds, against NumPy. Odd seeds run every kernel in parallel."""

from __future__ import annotations

import contextlib
import random

from random_case import describe, mismatches, parallel_above, run_graph
from random_graphs import random_graph

GRAPHS = 10_000
_SMALL_KERNELS_NS = 100.0


def cases() -> list[str]:
    return [str(seed) for seed in range(GRAPHS)]


def run(seed: str) -> dict:
    graph = random_graph(random.Random(int(seed)))
    with parallel_above(_SMALL_KERNELS_NS) if int(seed) % 2 else contextlib.nullcontext():
        wrong = mismatches(graph, run_graph(graph))
    return {"wrong": wrong, "graph": describe(graph)} if wrong else {"wrong": []}
