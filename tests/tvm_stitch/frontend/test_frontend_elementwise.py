"""Element-wise operators and casts against ONNX Runtime."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvm_stitch
from support.frontend.case import check_case
from support.frontend.elementwise import CASES


@pytest.mark.long(every=5)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_imported_operator_computes_what_onnx_says(case):
    check_case(case)


def test_a_constant_sum_is_cast_to_bool():
    nodes = [
        helper.make_node("Sub", ["x", "x"], ["nothing"]),
        helper.make_node("Add", ["minus", "nothing"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["y"], to=TensorProto.BOOL),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.INT32, [33])
    y = helper.make_tensor_value_info("y", TensorProto.BOOL, [33])
    minus = numpy_helper.from_array(np.array(-8, "i4"), "minus")
    graph = helper.make_graph(nodes, "g", [x], [y], [minus])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    assert tvm_stitch.compile(model).run({"x": np.arange(33, dtype="i4")})["y"].all()


@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ml_dtypes.bfloat16])
def test_a_literal_zero_is_not_folded(zero, dtype):
    x = np.array([1, -1, np.inf, -np.inf, np.nan, 0.0], dtype)
    zeros = np.full(1, zero, dtype)
    nodes = [
        helper.make_node("Mul", ["x", "zero"], ["m"]),
        helper.make_node("Div", ["zero", "x"], ["d"]),
        helper.make_node("Div", ["x", "zero"], ["i"]),
    ]
    initializers = [numpy_helper.from_array(zeros, "zero")]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    values = {n: helper.make_tensor_value_info(n, kind, [6]) for n in "xmdi"}
    outputs = [values[name] for name in "mdi"]
    graph = helper.make_graph(nodes, "g", [values["x"]], outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    got = tvm_stitch.compile(model).run({"x": x})
    with np.errstate(invalid="ignore", divide="ignore"):
        product, quotient, inverse = (a.astype("f8") for a in (x * zeros, zeros / x, x / zeros))
    # NumPy finds no bfloat16 NaN equal to itself.
    m, d, i = (got[name].astype("f8") for name in "mdi")
    np.testing.assert_array_equal(i, inverse)
    np.testing.assert_array_equal(m, product)
    np.testing.assert_array_equal(d, quotient)
    np.testing.assert_array_equal(np.signbit(m[:2]), np.signbit(product[:2]))
