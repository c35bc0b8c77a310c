"""Reductions over overlapping windows: any of them is right, and lines are read once, in lanes."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx

from support.kernels import stitch_case as sc
from support.kernels.checked import checked
from support.kernels.convolutions import Line, axes, convolution, convolving, square
from support.kernels.images import DEVICE, Image, assert_right, emitted
from support.kernels.planned import kernels
from support.kernels.tir import statements
from tir_schedules.cpu.accept.acceptance import accepted_plan
from tir_schedules.cpu.plan.kernel_plan import LoopNest, Plan

NARROW = replace(DEVICE, vector_bytes=32)


@st.composite
def images(draw: st.DrawFn) -> Image:
    rank = draw(st.integers(1, 3))
    most = {1: 90, 2: 40, 3: 10}[rank]
    lines = tuple(draw(axes(False, most)) for _ in range(rank))
    channels = draw(st.sampled_from([1, 3, 40]))
    dtype = draw(st.sampled_from(["float32", "float32", "float64"]))
    kind = draw(st.sampled_from(["sum", "sum", "max"]))
    return Image(channels, lines, dtype, kind, draw(st.booleans()))


@settings(max_examples=20, deadline=None, derandomize=True)
@given(images(), st.sampled_from([DEVICE, NARROW]))
def test_windows_of_any_shape_are_right(image, device):
    assert_right(image, device)


SHAPES = [
    pytest.param(square(56, 7, pads=(3, 3)), id="7x7"),
    pytest.param(square(56, 3, pads=(1, 1), stride=2), id="3x3-stride-2"),
    pytest.param(square(29, 5, pads=(2, 1), stride=2), id="5x5-stride-2-odd"),
    pytest.param(square(64, 7, pads=(3, 3), stride=4), id="7x7-stride-4"),
    pytest.param(square(30, 3, pads=(2, 2), dilation=2), id="dilated"),
    pytest.param(square(30, 3, pads=(2, 2), dilation=2, stride=2), id="dilated-stride-2"),
    pytest.param(square(14, 3, pads=(1, 1), stride=2), id="lines-of-7"),
    pytest.param(square(12, 3, 3, pads=(1, 1), stride=2), id="3d"),
    pytest.param([Line(9, 3, 1, 1, (1, 1)), Line(100, 5, 4, 1, (2, 2))], id="strides-that-differ"),
]


@pytest.mark.long(every=2)
@pytest.mark.parametrize("lines", SHAPES)
def test_rows_of_a_window_share_its_lines_and_read_them_in_lanes(lines):
    image = Image(40, tuple(lines))
    plan, func = emitted(image)
    (group,) = windows(plan)
    assert group.rows > 1
    assert not strided_lanes(func)
    assert_right(image)


@pytest.mark.long(every=6)
@pytest.mark.parametrize("groups", [32, 96])
@pytest.mark.parametrize(
    ("kernel", "stride", "multiplier"),
    [(3, 1, 1), (3, 2, 1), (7, 1, 1), (7, 2, 1), (5, 2, 2), (3, 2, 3)],
)
def test_a_depthwise_convolution_by_itself_is_one_kernel_with_its_epilogue(
    groups, kernel, stride, multiplier
):
    lines = square(28, kernel, pads=(kernel // 2,) * 2, stride=stride)
    model = convolution((groups, groups * multiplier), lines, groups)
    ops, plan = convolving(model)
    assert {"add", "relu"} <= set(ops)
    (group,) = windows(plan)
    assert group.epilogue is not None
    assert len(checked(model)) == 2


def test_a_line_of_seven_taps_is_read_once_for_all_its_rows():
    """8 rows x 7 taps are 56 products a column of taps, on 14 lines."""
    plan, func = emitted(Image(40, tuple(square(56, 7, pads=(3, 3)))))
    (group,) = windows(plan)
    order = group.window.points(group.rows)
    read = [group.window.line(*point) for point in order]
    assert (group.rows, len(order), len(set(read))) == (8, 56, 14)
    assert read == sorted(read)
    sums = [s for s, around in statements(func.body) if is_sum(s) and len(loops(around)) > 3]
    assert len(sums) % 56 == 0


@pytest.mark.parametrize("kernel", [3, 7])
def test_a_channels_last_window_is_a_line_of_pixels(kernel):
    """Rows at a border leave out the taps beyond it; none asks where it is."""
    lines = square(28, kernel, pads=(kernel // 2,) * 2)
    model = convolution((96, 96), lines, groups=96, behind=True)
    (plan,) = (p for p in map(plan_of, kernels(model)) if windows(p))
    (group,) = windows(plan)
    assert group.rows == 7
    assert not any(g.is_product for p in plan.phases for g in p.groups)
    checked(model)


def test_a_window_without_shared_lines_is_none():
    plan, _ = emitted(Image(40, tuple(square(28, 2, stride=2))))
    assert not windows(plan)


def test_infinities_stay_in_their_windows():
    model = convolution((8, 8), square(20, 3, pads=(1, 1), stride=2), groups=8)
    x = np.ones((1, 8, 20, 20), "float32")
    x[0, 0, 4, 4] = np.inf
    (y,) = sc.compiled(model, 2).model.run({"x": x}).values()
    assert np.isfinite(y[0, 1:]).all()
    beside = np.ones((10, 10), bool)
    beside[2, 2] = False
    assert np.isfinite(y[0, 0][beside]).all()


def plan_of(group) -> Plan:
    reason, plan = accepted_plan(group.kernel(), DEVICE)
    assert reason is None
    return plan


def windows(plan: Plan) -> list[LoopNest]:
    return [g for p in plan.phases for g in p.groups if g.window is not None]


def loops(around: tuple) -> list[tirx.For]:
    return [s for s in around if isinstance(s, tirx.For)]


def is_sum(stmt: tirx.Stmt) -> bool:
    return isinstance(stmt, tirx.BufferStore) and isinstance(stmt.value, tirx.Add)


def strided_lanes(func: tirx.PrimFunc) -> list[str]:
    """Return the lines of a kernel in which lanes lie apart in memory."""
    return [line for line in func.script().splitlines() if re.search(r"\blane\)* \* ", line)]
