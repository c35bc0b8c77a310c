"""What onnxsim would get wrong is left to the compiler."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from support.frontend.case import FLOAT, model, run_stock
from tvm_stitch.frontend import import_model


def test_consecutive_reductions_drop_the_axes_they_name():
    nodes = [
        helper.make_node("ReduceMax", ["x", "outer"], ["m"], keepdims=1),
        helper.make_node("ReduceMax", ["m", "inner"], ["y"], keepdims=0),
    ]
    axes = {"outer": np.array([0, 3]), "inner": np.array([-3, -1])}
    imported = import_model(
        model(nodes, {"x": (FLOAT, [5, 9, 3, 2])}, {"y": (FLOAT, [1, 3])}, axes)
    )
    x = np.random.default_rng(0).standard_normal((5, 9, 3, 2)).astype("f4")
    (got,) = run_stock(imported, {"x": x})
    np.testing.assert_array_equal(got, x.max((0, 3), keepdims=True).max((1, 3)))


def test_a_softmax_of_single_elements_keeps_nan():
    nodes = [helper.make_node("Softmax", ["x"], ["y"], axis=1)]
    imported = import_model(model(nodes, {"x": (FLOAT, [3, 1])}, {"y": (FLOAT, [3, 1])}))
    assert "softmax" in imported.mod["main"].script()


@pytest.mark.parametrize("op", ["Mul", "Pow"])
def test_the_least_bfloat16_is_no_one(op):
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.BFLOAT16),
        helper.make_node(op, ["wide", "least"], ["y"]),
    ]
    least = np.array(1, "u2").view("bfloat16")  # its bits are those of the integer 1
    given, made = {"x": (TensorProto.INT32, [3])}, {"y": (TensorProto.BFLOAT16, [3])}
    imported = import_model(model(nodes, given, made, {"least": least}))
    x = np.array([2, 6, 1], "i4")
    (got,) = run_stock(imported, {"x": x})
    want = x * least.astype("f8") if op == "Mul" else np.ones(3)
    np.testing.assert_allclose(got.astype("f8"), want, rtol=0.01)
