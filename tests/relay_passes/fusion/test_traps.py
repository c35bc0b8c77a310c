"""Graphs where too much fusion hurts: right whoever plans them, and never on the fallback."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import zoo

import tvm_stitch
from support.kernels import stitch_case as sc

BOUND = 1e-4  # ONNX Runtime sums a million numbers in f32 too


def reference(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    made = session.run(names, inputs)
    return {name: np.asarray(a, np.float64) for name, a in zip(names, made, strict=True)}


@pytest.mark.long(every=4)
@pytest.mark.parametrize("name", list(zoo.TRAPS))
def test_a_trap_is_right_with_every_planner(name):
    model = zoo.TRAPS[name]()
    onnx.checker.check_model(model)
    inputs = zoo.random_inputs(model)
    expected = reference(model, inputs)
    kernels = {}
    for fusion in ("stitch", "tvm", "none"):
        built = tvm_stitch.compile(model, fusion=fusion)
        sc.assert_close(built.run(inputs), expected, BOUND)
        kernels[fusion] = built.report.kernels
        assert built.report.fallbacks == 0
    assert kernels["stitch"] <= kernels["tvm"] <= kernels["none"]


def test_independent_chains_are_one_kernel():
    assert tvm_stitch.explain(zoo.TRAPS["independent_chains"]()).kernels == 1
