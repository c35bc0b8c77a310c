"""log(1 + x) keeps the digits of a small x under every fusion."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from onnx import TensorProto, helper
from tvm import relax

import tvm_stitch
from relay_passes.transform import LogOfSums

SHAPE = [3, 67]


def softplus() -> object:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in "xy")
    node = helper.make_node("Softplus", ["x"], ["y"])
    graph = helper.make_graph([node], "softplus", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize("fusion", ["stitch", "tvm", "none"])
def test_softplus_of_small_numbers(fusion: str):
    x = np.random.default_rng().uniform(-40, -8, SHAPE).astype(np.float32)
    got = tvm_stitch.compile(softplus(), fusion=fusion)(x)
    np.testing.assert_allclose(got.numpy(), np.log1p(np.exp(x.astype(np.float64))), rtol=2e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("swapped", [False, True])
def test_either_order_becomes_one_operator(dtype: str, swapped: bool):
    mod = logged(dtype, 1.0, swapped)
    assert "log1p" in LogOfSums()(mod).script()


def test_other_sums_stay():
    mod = logged("float32", 2.0, False)
    tvm.ir.assert_structural_equal(LogOfSums()(mod), mod)


def logged(dtype: str, number: float, swapped: bool) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((5,), dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            operands = (relax.const(number, dtype), x)
            total = builder.emit(relax.op.add(*(operands[::-1] if swapped else operands)))
            made = builder.emit_output(relax.op.log(total))
        builder.emit_func_output(made)
    return builder.finalize()
