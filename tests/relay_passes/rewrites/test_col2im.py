"""Convolutions to a few channels as one product and sums of it."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay_passes.rewrites.col2im import Taps, shares_lanes
from support.kernels import stitch_case as sc
from support.kernels.checked import checked
from support.kernels.convolutions import Line, axes, convolution, square
from support.kernels.planned import kernels
from tir_schedules.cpu.accept.acceptance import accepted_plan


@st.composite
def models(draw: st.DrawFn) -> onnx.ModelProto:
    transposed, rank = draw(st.booleans()), draw(st.integers(1, 3))
    lines = [draw(axes(transposed, {1: 40, 2: 13, 3: 6}[rank])) for _ in range(rank)]
    if not transposed:
        lines = [Line(li.size, li.kernel, 1, li.dilation, li.pads) for li in lines]
    lines = [li if li.made(transposed) > 0 else Line(li.size + 16, li.kernel) for li in lines]
    outs, depth = draw(st.integers(1, 7)), draw(st.sampled_from([24, 40, 96]))
    batch, behind = draw(st.integers(1, 2)), draw(st.booleans())
    return convolution((depth, outs), lines, 1, transposed, batch, behind)


@settings(max_examples=6, deadline=None, derandomize=True)
@given(models())
def test_convolutions_to_a_few_channels_are_right(model):
    checked(model)


@pytest.mark.long(every=10)
@pytest.mark.parametrize(
    ("channels", "lines", "transposed"),
    [
        pytest.param((64, 3), square(14, 4, stride=2, pads=(1, 1)), True, id="gan"),
        pytest.param((64, 1), square(14, 2, stride=2), True, id="mask"),
        pytest.param((64, 3), square(14, 3, stride=2, pads=(1, 1), extra=1), True, id="extra"),
        pytest.param((64, 1), [Line(100, 16, stride=8, pads=(4, 4))], True, id="vocoder"),
        pytest.param((64, 2), square(9, 3, pads=(2, 2), dilation=2), True, id="dilated-transposed"),
        pytest.param((64, 3), square(17, 3, pads=(1, 1)), False, id="decoder"),
        pytest.param((96, 2), square(17, 3, pads=(3, 3), dilation=3), False, id="dilated"),
        pytest.param((64, 1), [Line(100, 7, pads=(6, 0))], False, id="causal"),
        pytest.param((64, 2), square(6, 3, 3, pads=(1, 1)), False, id="3d"),
    ],
)
@pytest.mark.parametrize("behind", [False, True])
def test_taps_share_the_lanes_in_the_kernel_of_the_bias_and_relu(
    channels, lines, transposed, behind
):
    model = convolution(channels, lines, 1, transposed, 1, behind)
    ops = [{node.name for node in group.nodes} for group in kernels(model)]
    assert any({"col2im", "add", "relu"} <= names for names in ops)
    checked(model)


def test_no_lane_of_the_product_is_padding():
    """48 columns: 3 channels of 4 x 4 taps. As channels they would be 8 lanes for each tap."""
    model = convolution((64, 3), square(14, 4, stride=2, pads=(1, 1)), transposed=True)
    (group,) = (g for g in kernels(model) if any("convolve" in n.name for n in g.nodes))
    reason, plan = accepted_plan(group.kernel(), sc.device(2))
    assert reason is None
    products = [g for p in plan.phases for g in p.groups if g.is_product]
    assert [g.dims[-1].extent for g in products] == [48]


def test_infinite_weights_meet_the_zeros_of_the_padding():
    """As ONNX Runtime gives it: NaN where an infinite tap lies beyond the image."""
    model = convolution((64, 3), square(8, 3, pads=(1, 1)))
    weight = next(i for i in model.graph.initializer if len(i.dims) == 4)
    values = onnx.numpy_helper.to_array(weight).copy()
    values[:, :, 0, :] = np.inf
    weight.CopyFrom(onnx.numpy_helper.from_array(values, weight.name))
    (y,) = sc.compiled(model, 2).model.run({"x": np.ones((1, 64, 8, 8), "float32")}).values()
    assert np.isnan(y[:, :, 0]).all()
    assert np.isnan(y[:, :, :, [0, -1]]).all()
    assert np.isinf(y[:, :, 1:, 1:-1]).all()


def square_taps(taps: int, stride: int = 1) -> list[Taps]:
    return [Taps(taps, stride, 1, 0, 32, mirrored=False)] * 2


def test_channels_that_fill_the_lanes_keep_them():
    assert shares_lanes(square_taps(4, 2), 64, 3)
    assert shares_lanes(square_taps(4, 2), 64, 6)
    assert not shares_lanes(square_taps(4, 2), 64, 8)
    assert not shares_lanes(square_taps(2, 2), 32, 7)  # sums take more than a lane of eight
    assert not shares_lanes(square_taps(1), 64, 3)


def test_products_that_outgrow_the_image_or_the_code_are_not_stored():
    assert not shares_lanes(square_taps(9), 64, 3)
    assert shares_lanes(square_taps(9), 64, 1)
    assert not shares_lanes(square_taps(12), 256, 1)
    assert shares_lanes(square_taps(12, 2), 256, 1)


@given(
    taps=st.integers(1, 6),
    stride=st.integers(1, 4),
    before=st.integers(0, 6),
    size=st.integers(1, 9),
    made=st.integers(1, 30),
)
def test_turns_meet_each_source_that_gives_to_a_pixel_once(taps, stride, before, size, made):
    """Source s gives to pixel s * stride + tap - before."""
    axis = Taps(taps, stride, 1, before, made, mirrored=False)
    for p, s in itertools.product(range(made), range(size)):
        met = [
            (p + before) % stride + stride * turn
            for turn in range(axis.terms)
            if (p + before) // stride - turn == s
        ]
        tap = p + before - s * stride
        assert [t for t in met if t < taps] == ([tap] if 0 <= tap < taps else [])
