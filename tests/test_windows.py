"""Reductions over overlapping windows: any of them is right, and lines are read once, in lanes."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace

import numpy as np
import pytest
import stitch_case as sc
from hypothesis import given, settings
from hypothesis import strategies as st
from stitch_tir import statements
from test_chains import kernels
from test_convolution_property import Line, axes, convolution, convolving, square
from test_elementwise_code import run
from test_pack_weights import checked
from tvm import te, tirx

from tir_schedules.cpu.accept.acceptance import accepted_plan
from tir_schedules.cpu.plan.kernel_plan import LoopNest, Plan
from tir_schedules.cpu.template import emit_plan
from tir_schedules.default_plan import plan_prim_func

DEVICE = sc.device(2)
NARROW = replace(DEVICE, vector_bytes=32)


@dataclass(frozen=True)
class Image:
    """A window over a padded image of one channel a plane: `kind` is what it reduces by."""

    channels: int
    lines: tuple[Line, ...]
    dtype: str = "float32"
    kind: str = "sum"
    last: bool = False

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(0)
        sizes, kernel = [n.size for n in self.lines], [n.kernel for n in self.lines]
        if self.last:
            shapes = ((*sizes, self.channels), (*kernel, self.channels))
        else:
            shapes = ((self.channels, *sizes), (self.channels, *kernel))
        image, weight = (rng.standard_normal(shape).astype(self.dtype) for shape in shapes)
        return image, weight

    def func(self) -> tirx.PrimFunc:
        rank, last, low = len(self.lines), self.last, 0.0 if self.kind == "sum" else -np.inf
        image, weight = (te.placeholder(a.shape, self.dtype, n) for a, n in
                         zip(self.arrays(), ("image", "weight"), strict=True))  # fmt: skip
        fill = tirx.FloatImm(self.dtype, low)
        before = [n.pads[0] for n in self.lines]

        def pixel(at: tuple) -> tuple[tuple, object]:
            return (at[:rank], at[rank]) if last else (at[1:], at[0])

        def place(pixels: list, channel: object) -> tuple:
            return (*pixels, channel) if last else (channel, *pixels)

        def padded(*at: te.Var) -> te.Expr:
            pixels, channel = pixel(at)
            inside = [
                tirx.all(p >= b, p < b + n.size)
                for p, b, n in zip(pixels, before, self.lines, strict=True)
            ]
            here = place([p - b for p, b in zip(pixels, before, strict=True)], channel)
            return tirx.if_then_else(tirx.all(*inside), image[here], fill)

        wide = [n.size + sum(n.pads) for n in self.lines]
        pad = te.compute(place(wide, self.channels), padded, "pad")
        taps = [te.reduce_axis((0, n.kernel), f"k{i}") for i, n in enumerate(self.lines)]

        def value(*at: te.Var) -> te.Expr:
            pixels, channel = pixel(at)
            here = [
                p * n.stride + t * n.dilation
                for p, t, n in zip(pixels, taps, self.lines, strict=True)
            ]
            read = pad[place(here, channel)]
            if self.kind == "max":
                return te.max(read, axis=taps)
            return te.sum(read * weight[place(taps, channel)], axis=taps)

        made = [n.made(False) for n in self.lines]
        out = te.compute(place(made, self.channels), value, "out")
        return te.create_prim_func([image, weight, out])

    def expected(self) -> np.ndarray:
        image, weight = (a.astype("float64") for a in self.arrays())
        if self.last:
            image, weight = np.moveaxis(image, -1, 0), np.moveaxis(weight, -1, 0)
        low = 0.0 if self.kind == "sum" else -np.inf
        pads = [(0, 0), *(n.pads for n in self.lines)]
        image = np.pad(image, pads, constant_values=low)
        out = np.full((self.channels, *(n.made(False) for n in self.lines)), low)
        for taps in itertools.product(*(range(n.kernel) for n in self.lines)):
            cut = [
                slice(t * n.dilation, t * n.dilation + (n.made(False) - 1) * n.stride + 1, n.stride)
                for t, n in zip(taps, self.lines, strict=True)
            ]
            part = image[(slice(None), *cut)]
            if self.kind == "max":
                out = np.maximum(out, part)
            else:
                each = weight[(slice(None), *taps)]
                out += part * each.reshape(-1, *[1] * len(self.lines))
        return np.moveaxis(out, 0, -1) if self.last else out


def emitted(image: Image, device=DEVICE) -> tuple[Plan, tirx.PrimFunc]:
    func = image.func()
    plan = plan_prim_func(func, device)
    assert isinstance(plan, Plan), plan
    return plan, emit_plan(plan, func)


def assert_right(image: Image, device=DEVICE) -> None:
    expected = image.expected()
    got = np.full(expected.shape, 7, image.dtype)
    run(emitted(image, device)[1], *image.arrays(), got)
    sc.assert_close({"y": got}, {"y": expected}, sc.BOUND[image.dtype])


@st.composite
def images(draw: st.DrawFn) -> Image:
    rank = draw(st.integers(1, 3))
    most = {1: 90, 2: 40, 3: 10}[rank]
    lines = tuple(draw(axes(False, most)) for _ in range(rank))
    channels = draw(st.sampled_from([1, 3, 40]))
    dtype = draw(st.sampled_from(["float32", "float32", "float64"]))
    kind = draw(st.sampled_from(["sum", "sum", "max"]))
    return Image(channels, lines, dtype, kind, draw(st.booleans()))


@settings(max_examples=40, deadline=None, derandomize=True)
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


@pytest.mark.parametrize("lines", SHAPES)
def test_rows_of_a_window_share_its_lines_and_read_them_in_lanes(lines):
    image = Image(40, tuple(lines))
    plan, func = emitted(image)
    (group,) = windows(plan)
    assert group.rows > 1
    assert not strided_lanes(func)
    assert_right(image)


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
