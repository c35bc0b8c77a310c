"""Transposed convolutions of infinities and NaN: where they are met, as ONNX Runtime has it."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import tvm_stitch

# channels in and out, groups, size, kernel, strides, dilations, pads before and after
CASES = {
    "strides and dilation": ((5, 3), 1, (6, 5), (2, 2), (2, 2), (2, 2), (1, 0, 1, 1)),
    "strides and another dilation": ((5, 8), 1, (6, 5), (3, 2), (2, 3), (3, 2), (0, 0, 0, 0)),
    "packed": ((8, 17), 1, (6, 5), (3, 2), (2, 2), (1, 1), (1, 0, 1, 1)),
    "few channels": ((8, 2), 1, (6, 5), (3, 3), (2, 2), (1, 1), (1, 0, 1, 1)),
    "dilation alone": ((8, 16), 1, (6, 5), (3, 3), (1, 1), (2, 3), (1, 0, 1, 1)),
    "groups": ((6, 4), 2, (4, 7), (3, 3), (2, 1), (2, 4), (2, 1, 0, 3)),
    "depthwise": ((4, 4), 4, (5, 5), (3, 3), (2, 2), (1, 1), (1, 1, 1, 1)),
    "depthwise with dilation": ((4, 8), 4, (5, 6), (3, 2), (1, 2), (2, 1), (0, 1, 2, 0)),
    "one axis": ((3, 2), 1, (9,), (3,), (2,), (3,), (1, 2)),
    "three axes": ((3, 2), 1, (3, 4, 2), (2, 2, 1), (2, 1, 2), (2, 2, 2), (0, 1, 0, 0, 0, 1)),
    "more padding than kernel": ((2, 2), 1, (8, 8), (2, 2), (2, 2), (1, 2), (3, 3, 3, 3)),
}


def model_of(channels, groups, size, kernel, strides, dilations, pads, weight=None, batch=2):
    (depth, outs), rng = channels, np.random.default_rng(7)
    values = rng.standard_normal((depth, outs // groups, *kernel)).astype(np.float32)
    if weight is not None:
        values.flat[rng.integers(values.size)] = weight
    options = {"strides": strides, "dilations": dilations, "pads": pads, "group": groups}
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], kernel_shape=kernel, **options)
    infos = (helper.make_tensor_value_info("x", 1, [batch, depth, *size]),
             helper.make_tensor_value_info("y", 1, None))  # fmt: skip
    graph = helper.make_graph(
        [node], "g", infos[:1], infos[1:], [numpy_helper.from_array(values, "w")]
    )
    opset = [helper.make_opsetid("", 17)]
    return onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=opset, ir_version=9)
    )


def check(model: onnx.ModelProto, special: float | None, fusion: str) -> None:
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    rng = np.random.default_rng(3)
    x = rng.standard_normal(shape).astype(np.float32)
    if special is not None:
        x.flat[rng.integers(0, x.size, 2)] = special
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (want,) = session.run(None, {"x": x})
    got = tvm_stitch.compile(model, threads=2, fusion=fusion).run({"x": x})["y"]
    finite = np.isfinite(want)
    assert finite.any()
    np.testing.assert_array_equal(got[~finite], want[~finite])
    np.testing.assert_allclose(got[finite], want[finite], rtol=1e-5, atol=1e-5)


@pytest.mark.long(every=17)
@pytest.mark.parametrize("fusion", ["stitch", "none"])
@pytest.mark.parametrize("special", [None, np.inf, np.nan])
@pytest.mark.parametrize("case", CASES)
def test_a_special_number_of_the_image_is_where_it_is_met(case, special, fusion):
    check(model_of(*CASES[case]), special, fusion)


@pytest.mark.long(every=5)
@pytest.mark.parametrize("weight", [np.inf, np.nan])
@pytest.mark.parametrize("case", CASES)
def test_a_special_number_of_the_weight_is_where_it_is_met(case, weight):
    check(model_of(*CASES[case], weight=weight), None, "stitch")


@pytest.mark.parametrize("fusion", ["stitch", "none"])
def test_a_dilation_wider_than_the_image_leaves_pixels_that_no_tap_meets(fusion):
    wide = model_of((3, 2), 1, (7, 8), (3, 3), (1, 1), (2, 34), (0, 0, 0, 0), batch=1)
    check(wide, None, fusion)
