"""Small models and random graphs compiled for a GPU, whose kernels run as C++ on this CPU.

Threads and blocks go in an order that is another for each launch, memory begins as NaN. TVM's own
CUDA runtime launches the kernels: tests/lib/support/simt/machine.
"""

from __future__ import annotations

import functools
import random

import numpy as np
import onnxruntime
import zoo

import tvm_stitch
from support.random_graphs.case import describe, mismatches
from support.random_graphs.graphs import random_graph
from support.simt import machine

from . import sample

GRAPHS = 2_000
BOUND = 1e-4  # max difference over max magnitude


def cases(seed: int) -> list[str]:
    return [*zoo.SMALL, *sample.draw(GRAPHS, seed)]


def run(case: str) -> dict:
    _install()
    return _model(case) if case in zoo.SMALL else _graph(int(case))


@functools.cache
def _install() -> None:
    machine.install()


def _model(name: str) -> dict:
    proto = zoo.model(name, **zoo.SMALL[name])
    inputs = zoo.random_inputs(proto, seed=1)
    model, before = tvm_stitch.compile(proto, "cuda"), machine.launched()
    got = model.run(inputs)
    launches = machine.launched() - before
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    pairs = zip(got.values(), session.run(None, inputs), strict=True)
    error = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)
    wrong = [] if error < BOUND else [f"error of max {error:.3g}, the bound is {BOUND}"]
    if launches != model.report.kernels:
        wrong.append(f"{launches} launches, the report has {model.report.kernels}")
    fallbacks = model.report.fallbacks
    return {"error_of_max": error, "kernels": launches, "fallbacks": fallbacks, "wrong": wrong}


def _graph(seed: int) -> dict:
    graph = random_graph(random.Random(seed))
    got = tvm_stitch.compile(graph.model(), "cuda").run(graph.feeds())
    wrong = mismatches(graph, [got[value.name] for value in graph.outputs])
    return {"wrong": wrong, "graph": describe(graph)} if wrong else {"wrong": []}
