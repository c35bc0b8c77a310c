"""Passes that lay weights and images out leave alone what has no static shape."""

from __future__ import annotations

import pytest
from tvm import ir, relax, tirx
from tvm.ir import IRModule

from relay_passes.transform import ChannelsLast, PackWeights, PointwiseProducts
from support.models import relax_models


def convolution(groups: int, taps: int, layout: str, unknown: str) -> IRModule:
    """A convolution by a weight, of a batch or a weight whose size is not known."""
    builder = relax.BlockBuilder()
    batch = tirx.Var("n", "int64") if unknown == "batch" else 2
    image = (batch, 32, 8, 8) if layout == "NCHW" else (batch, 8, 8, 32)
    kernel = relax.TensorType((32, 32 // groups, taps, taps), "float32")
    if unknown == "weight":
        kernel = relax.TensorType(dtype="float32", ndim=4)
    x, w = relax.Var("x", relax.TensorType(image, "float32")), relax.Var("w", kernel)
    options = {"padding": taps // 2, "groups": groups, "data_layout": layout}
    with builder.function("main", [x, w]):
        with builder.dataflow():
            y = builder.emit_output(builder.emit(relax.op.nn.conv2d(x, w, **options)))
        builder.emit_func_output(y)
    mod = builder.get()
    mod["main"] = mod["main"].with_attr("num_input", 1)
    return mod


@pytest.mark.parametrize("step", [ChannelsLast, PackWeights, PointwiseProducts])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("groups", [1, 4, 32])
@pytest.mark.parametrize("taps", [1, 3])
@pytest.mark.parametrize("unknown", ["batch", "weight"])
def test_a_convolution_of_unknown_shape_stays_one(step, layout, groups, taps, unknown):
    with relax_models.cpu():
        mod = step()(convolution(groups, taps, layout, unknown))
    calls = [b.value.op for b in mod["main"].body.blocks[0].bindings if hasattr(b.value, "op")]
    assert calls.count(ir.Op.get("relax.nn.conv2d")) == 1
