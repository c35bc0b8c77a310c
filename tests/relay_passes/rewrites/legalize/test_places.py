"""ArgMax and ArgMin against ONNX Runtime and NumPy: any type, axis and shape, special numbers."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper
from tvm import relax

import tvm_stitch
from support.models.relax_models import cpu

NAN, INF = np.nan, np.inf
KINDS = ("ArgMax", "ArgMin")
TYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "int64")


def model(kind: str, x: np.ndarray, **attributes: int) -> onnx.ModelProto:
    node = helper.make_node(kind, ["x"], ["y"], **attributes)
    dtype = helper.np_dtype_to_tensor_dtype(x.dtype)
    ins = [helper.make_tensor_value_info("x", dtype, x.shape)]
    outs = [helper.make_tensor_value_info("y", TensorProto.INT64, None)]
    graph = helper.make_graph([node], kind, ins, outs)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


def theirs(made: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    (y,) = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    return y


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [0, 1])
def test_every_row_of_special_numbers_has_the_place_that_onnx_runtime_gives_it(kind, axis):
    rows = np.array(list(itertools.product((1, 2, NAN, INF, -INF), repeat=4)), "float32")
    x = np.ascontiguousarray(rows.T) if axis == 0 else rows
    made = model(kind, x, axis=axis, keepdims=0)
    np.testing.assert_array_equal(tvm_stitch.compile(made).run({"x": x})["y"], theirs(made, x))


@pytest.mark.long(every=15)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((7, 131), {"axis": -1}),
        ((3, 130, 5), {"axis": 1, "keepdims": 0}),
        ((129, 17), {"axis": 0, "select_last_index": 1}),
        ((1,), {"axis": 0}),
        ((2, 1, 3), {"axis": -2}),
        ((0, 4), {"axis": 1}),
    ],
)
def test_ties_go_to_the_first_place_or_to_the_last(kind, dtype, shape, attributes):
    x = np.random.default_rng().integers(0, 5, shape).astype(dtype)
    made = model(kind, x, **attributes)
    compiled = tvm_stitch.compile(made, threads=2)
    y = compiled.run({"x": x})["y"]
    axis, keepdims = attributes["axis"], bool(attributes.get("keepdims", 1))
    find = np.argmax if kind == "ArgMax" else np.argmin
    if attributes.get("select_last_index"):
        expected = x.shape[axis] - 1 - find(np.flip(x, axis), axis, keepdims=keepdims)
    else:
        expected = find(x, axis, keepdims=keepdims) if x.size else np.zeros((0, 1))
    np.testing.assert_array_equal(y, expected)
    if x.size:
        assert compiled.report.fallbacks == 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("keepdims", [False, True])
def test_the_place_in_all_of_a_tensor_is_that_of_its_elements_in_order(dtype, keepdims):
    b, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((5, 7, 3), dtype))
    with b.function("main", [x]):
        with b.dataflow():
            y = b.emit_output(relax.op.argmax(x, None, keepdims))
        b.emit_func_output(y)
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    array = np.random.default_rng().standard_normal((5, 7, 3)).astype(kind)
    made = tvm.compile(b.finalize(), cpu(), relax_pipeline="tvm_stitch")
    got = relax.VirtualMachine(made, tvm.cpu())["main"](tvm.runtime.tensor(array)).numpy()
    expected = array.astype("float32").argmax()
    np.testing.assert_array_equal(got, np.full((1, 1, 1), expected) if keepdims else expected)
