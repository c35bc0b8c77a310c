"""Models of operator sets 1 to 9: what their operators meant then."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.frontend.case import run_stock
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend import import_model

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 5, 5)).astype("f4")
SCALE, SHIFT, MEAN = RNG.standard_normal((3, 3)).astype("f4")
VARIANCE = RNG.random(3).astype("f4") + 0.5
ROWS, BIAS = RNG.standard_normal((75, 4)).astype("f4"), RNG.standard_normal(4).astype("f4")


def by_channel(values: np.ndarray) -> np.ndarray:
    return values.reshape(1, 3, 1, 1)


def model(opset: int, nodes, weights) -> onnx.ModelProto:
    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "old",
        [info("x", TensorProto.FLOAT, X.shape),
         *(info(each.name, each.data_type, each.dims) for each in stored)],
        [info("y", TensorProto.FLOAT, None)],
        stored,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3)


def node(op: str, *operands: str, **attrs) -> list[onnx.NodeProto]:
    return [helper.make_node(op, ["x", *operands], ["y"], **attrs)]


CASES = {
    "sum-from-an-axis": (
        node("Add", "b", broadcast=1, axis=1), {"b": SHIFT}, X + by_channel(SHIFT)
    ),
    "product-at-the-end": (node("Mul", "w", broadcast=1), {"w": BIAS[:1]}, X * BIAS[:1]),
    "slope-a-channel": (
        node("PRelu", "s"), {"s": SCALE}, np.where(X < 0, X * by_channel(SCALE), X)
    ),
    "norm-that-tests": (
        node("BatchNormalization", "s", "b", "m", "v", is_test=1),
        {"s": SCALE, "b": SHIFT, "m": MEAN, "v": VARIANCE},
        (X - by_channel(MEAN)) / np.sqrt(by_channel(VARIANCE) + 1e-5) * by_channel(SCALE)
        + by_channel(SHIFT),
    ),
    "dropout-that-tests": (node("Dropout", is_test=1, ratio=0.5), {}, X),
    "product-and-bias": (
        [helper.make_node("Flatten", ["x"], ["f"]),
         helper.make_node("Gemm", ["f", "w", "b"], ["y"], broadcast=1)],
        {"w": ROWS, "b": BIAS}, X.reshape(2, -1) @ ROWS + BIAS,
    ),
    "bounds-as-attributes": (node("Clip", min=-0.5, max=0.5), {}, X.clip(-0.5, 0.5)),
    "part": (node("Slice", axes=[2, -1], starts=[1, -3], ends=[99, -1]), {}, X[:, :, 1:, -3:-1]),
    "part-of-first-axes": (node("Slice", starts=[1, 0], ends=[2, 2]), {}, X[1:2, 0:2]),
}  # fmt: skip


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize("name", CASES)
def test_an_operator_means_what_it_did(name, opset):
    nodes, weights, want = CASES[name]
    if nodes[0].op_type == "BatchNormalization" and opset < 6:
        nodes = node("BatchNormalization", *weights, is_test=1, consumed_inputs=[0, 0, 0, 1, 1])
    (got,) = run_stock(import_model(model(opset, nodes, weights)), {"x": X})
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("opset", [7, 9])
def test_a_part_is_asked_for_by_attributes(opset):
    nodes, weights, want = CASES["part"]
    (got,) = run_stock(import_model(model(opset, nodes, weights)), {"x": X})
    np.testing.assert_array_equal(got, want)


def test_an_operand_that_ends_too_far_behind_is_told_in_one_line():
    nodes = node("Add", "b", broadcast=1, axis=3)
    with pytest.raises(StitchError, match="ends behind what it broadcasts to"):
        import_model(model(6, nodes, {"b": np.ones((5, 5), "f4")}))


def test_what_the_converter_lacks_is_told_in_one_line():
    nodes = node("Pad", paddings=[0] * 8, mode="constant", value=0.0)
    with pytest.raises(StitchError, match="can't take it from opset 1 on") as refused:
        import_model(model(1, nodes, {}))
    assert "\n" not in str(refused.value)
