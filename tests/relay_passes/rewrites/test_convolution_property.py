"""Convolutions of any shape against ONNX Runtime, and what their kernels must look like."""

from __future__ import annotations

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.kernels.checked import checked
from support.kernels.convolutions import Line, axes, convolution, convolving, square
from tir_schedules.cpu.accept.inspect import guarded_windows, untiled_products
from tir_schedules.cpu.plan.kernel_plan import Plan

# of input and of output for each group
WIDTHS = [(1, 1), (1, 2), (2, 1), (3, 3), (4, 4), (8, 6), (5, 8), (16, 24), (7, 17), (24, 40)]


@st.composite
def models(draw: st.DrawFn, transposed: bool) -> onnx.ModelProto:
    rank = draw(st.integers(1, 3))
    groups, widths = draw(st.sampled_from([1, 1, 2, 3, 8])), draw(st.sampled_from(WIDTHS))
    lines = [draw(axes(transposed, {1: 40, 2: 17, 3: 7}[rank])) for _ in range(rank)]
    options = {"batch": draw(st.integers(1, 2)), "behind": draw(st.booleans())}
    depth, outs = (width * groups for width in widths)
    return convolution((depth, outs), lines, groups, transposed, **options)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(models(transposed=False))
def test_convolutions_are_right(model):
    checked(model)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(models(transposed=True))
def test_transposed_convolutions_are_right(model):
    checked(model)


@pytest.mark.long(every=6)
@pytest.mark.parametrize(
    ("channels", "lines", "groups", "transposed"),
    [
        pytest.param((64, 64), square(28, 3, pads=(1, 1)), 4, False, id="groups-of-16"),
        pytest.param((96, 96), square(28, 3, pads=(1, 1)), 4, False, id="groups-of-24"),
        pytest.param((128, 128), square(28, 3, pads=(1, 1), stride=2), 16, False, id="groups-of-8"),
        pytest.param((48, 64), square(27, 5, pads=(2, 2)), 2, False, id="two-groups"),
        pytest.param((64, 30), square(28, 3, pads=(1, 1)), 1, False, id="ragged-channels"),
        pytest.param((64, 17), square(28, 2, pads=(0, 1)), 1, False, id="even-kernel"),
        pytest.param((64, 64), square(33, 3, pads=(6, 6), dilation=6), 1, False, id="dilated"),
        pytest.param((64, 64), [Line(500, 3, dilation=8, pads=(16, 0))], 1, False, id="causal-1d"),
        pytest.param((16, 64), square(9, 3, 3, pads=(1, 1)), 1, False, id="3d"),
        pytest.param((64, 32), square(28, 2, stride=2), 1, True, id="transposed-2x2"),
        pytest.param((64, 32), square(14, 4, stride=2, pads=(1, 1)), 1, True, id="transposed-4x4"),
        pytest.param((64, 32), square(28, 3, stride=2, pads=(1, 1), extra=1), 1, True,
                     id="transposed-3x3"),
        pytest.param((64, 64), square(28, 3, pads=(1, 1)), 1, True, id="transposed-stride-1"),
        pytest.param((64, 64), square(28, 4, stride=2, pads=(1, 1)), 4, True,
                     id="transposed-groups"),
        pytest.param((21, 21), square(16, 16, stride=8, pads=(4, 4)), 1, True, id="upsampling"),
        pytest.param((64, 32), [Line(200, 16, stride=8, pads=(4, 4))], 1, True, id="vocoder"),
        pytest.param((32, 16), square(8, 2, 3, stride=2), 1, True, id="transposed-3d"),
    ],
)  # fmt: skip
def test_a_convolution_with_its_bias_and_relu_is_one_register_tile(
    channels, lines, groups, transposed
):
    model = convolution(channels, lines, groups, transposed)
    ops, plan = convolving(model)
    assert {"add", "relu"} <= set(ops)
    assert tiled(plan)
    checked(model)


def test_a_depthwise_convolution_of_several_channels_each_repeats_them_in_its_kernel():
    model = convolution((64, 128), square(28, 3, pads=(1, 1)), groups=64, behind=True)
    assert any("repeat_convolve_depthwise" in name for name in checked(model))


@pytest.mark.long(every=3)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("outs", [5, 7])
def test_a_few_channels_are_made_eight_and_cut(outs, transposed):
    lines = square(28, 4 if transposed else 3, stride=2, pads=(1, 1))
    model = convolution((16, outs), lines, 1, transposed)
    assert tiled(convolving(model)[1])
    assert not any("col2im" in name for name in checked(model))


def tiled(plan: Plan) -> bool:
    """Return whether the convolution is a register tile that leaves its padding to loops."""
    groups = (g for p in plan.phases for g in p.groups)
    rows = [g.rows for g in groups if "conv" in g.nodes[0].stage.name]
    assert len(rows) == 1
    return rows[0] > 1 and not untiled_products(plan) and not guarded_windows(plan)
