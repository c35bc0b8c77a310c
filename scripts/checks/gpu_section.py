"""Small models and random graphs compiled for a GPU, whose kernels run as C++ on this CPU.

Threads and blocks go in an order that is another for each launch, memory begins as NaN. TVM's own
CUDA runtime launches the kernels: tests/lib/support/simt/machine.
"""

from __future__ import annotations

import functools
import math
import random
from dataclasses import asdict

import numpy as np
import onnxruntime
import zoo

import tvm_stitch
from support.random_graphs.case import describe, mismatches
from support.random_graphs.graphs import random_graph
from support.simt import machine
from tvm_stitch.profiling.calibration import gpu

from . import sample

GRAPHS = 2_000
BOUND = 1e-4  # max difference over max magnitude


def cases(seed: int) -> list[str]:
    return ["calibrate", *zoo.SMALL, *sample.draw(GRAPHS, seed)]


def run(case: str) -> dict:
    _install()
    if case == "calibrate":
        return _calibrated()
    return _model(case) if case in zoo.SMALL else _graph(int(case))


@functools.cache
def _install() -> None:
    machine.install()


def _calibrated() -> dict:
    """Answer for a hundredth of what calibrate does: the times mean nothing here."""
    figures = asdict(gpu.calibrate("", str, 0.01).figures)
    return {"wrong": [name for name, value in figures.items() if not 0 < value < math.inf]}


def _model(name: str) -> dict:
    proto = zoo.model(name, **zoo.SMALL[name])
    inputs = zoo.random_inputs(proto, seed=1)
    model, before = tvm_stitch.compile(proto, "cuda"), machine.launched()
    got = model.run(inputs)
    launches = machine.launched() - before
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    other = zoo.random_inputs(proto, seed=2)  # launches are replayed from the second call on
    pairs = [
        *zip(got.values(), session.run(None, inputs), strict=True),
        *zip(model.run(other).values(), session.run(None, other), strict=True),
    ]
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
