"""Kernels between guard pages, of random models and the small zoo: support/kernels/guarded.py."""

from __future__ import annotations

import random

import zoo

import tvm_stitch
from support.blocks.reducer import whole
from support.kernels.guarded import out_of_bounds
from support.random_graphs.case import describe
from support.random_graphs.graphs import random_graph

from . import sample

NETWORKS, GRAPHS = 500, 500


def cases(seed: int) -> list[str]:
    networks, graphs = sample.draw(NETWORKS, seed + 2), sample.draw(GRAPHS, seed + 3)
    return [
        *(f"zoo:{name}" for name in zoo.MODELS),
        *(f"blocks:{number}" for number in networks),
        *(f"graphs:{number}" for number in graphs),
    ]


def run(case: str) -> dict:
    kind, _, name = case.partition(":")
    if kind == "zoo":
        proto = zoo.model(name, **zoo.SMALL[name])
        found = out_of_bounds(tvm_stitch.compile(proto), zoo.random_inputs(proto, seed=1))
        return {"wrong": [found] if found else []}
    if kind == "blocks":
        chosen = whole(int(name))
        graph = chosen.graph()
        model = chosen.way.compiled(graph, "stitch", chosen.way.threads[-1])
    else:
        graph = random_graph(random.Random(int(name)))
        model = tvm_stitch.compile(graph.model(), threads=2)
    if found := out_of_bounds(model, graph.feeds()):
        return {"wrong": [found], "graph": describe(graph)}
    return {"wrong": []}
