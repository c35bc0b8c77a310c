"""Each kernel between guard pages, of random networks and the small zoo: tests/guarded.py."""

from __future__ import annotations

import zoo
from block_reducer import whole
from guarded import out_of_bounds
from random_case import describe

import tvm_stitch

from . import sample

NETWORKS = 500


def cases(seed: int) -> list[str]:
    networks = sample.draw(NETWORKS, seed + 2)  # networks of their own
    return [*(f"zoo:{name}" for name in zoo.MODELS), *(f"blocks:{number}" for number in networks)]


def run(case: str) -> dict:
    kind, _, name = case.partition(":")
    if kind == "zoo":
        proto = zoo.model(name, **zoo.SMALL[name])
        found = out_of_bounds(tvm_stitch.compile(proto), zoo.random_inputs(proto, seed=1))
        return {"wrong": [found] if found else []}
    chosen = whole(int(name))
    graph = chosen.graph()
    model = chosen.way.compiled(graph, "stitch", chosen.way.threads[-1])
    if found := out_of_bounds(model, graph.feeds()):
        return {"wrong": [found], "way": str(chosen.way), "graph": describe(graph)}
    return {"wrong": []}
