"""Convolutions of padded images without a padded copy: loops leave out taps beyond the border."""

from __future__ import annotations

import itertools
import math
import operator
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import stitch_case as sc
from hypothesis import example, given, settings
from hypothesis import strategies as st
from stitch_tir import statements
from test_pack_weights import checked
from tvm import tirx
from zoo.graph import Graph

from tir_schedules.analysis.atoms import Atom
from tir_schedules.analysis.expr import Axis, AxisRef, Const, Expr, Op
from tir_schedules.cpu import padding
from tir_schedules.cpu.row_blocks import rows_of

DEPTH = 16  # channels read


def conv(
    size: tuple[int, int],
    kernel: tuple[int, int],
    pads: list[int],
    channels: tuple[int, int] = (DEPTH, 32),
    groups: int = 1,
    strides: tuple[int, int] = (1, 1),
    dilation: int = 1,
) -> onnx.ModelProto:
    g = Graph("conv")
    depth, made = channels
    x = g.input("x", (1, depth, *size))
    if groups > 1:  # channels last behind another only
        x = g.op("Conv", x, g.weight("v", (depth, depth, 1, 1)))
    w = g.weight("w", (made, depth // groups, *kernel))
    y = g.op("Conv", x, w, pads=pads, group=groups, strides=strides, dilations=[dilation] * 2)
    sizes = [
        (n + pads[axis] + pads[axis + 2] - (kernel[axis] - 1) * dilation - 1) // strides[axis] + 1
        for axis, n in enumerate(size)
    ]
    g.output(g.op("Relu", y), "y", (1, made, *sizes))
    return g.model()


def kernel_of(model: onnx.ModelProto) -> tirx.PrimFunc:
    mod = sc.compiled(model, 2).mod
    (found,) = (f for v, f in mod.functions_items() if "convolve" in v.name_hint)
    return found


@pytest.mark.parametrize("groups", [1, 16])
@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (1, 3)])
@pytest.mark.parametrize(
    ("size", "kernel", "pads"),
    [
        ((9, 45), (3, 3), [1, 1, 1, 1]),
        ((45, 9), (3, 3), [1, 1, 1, 1]),
        ((7, 60), (5, 7), [2, 3, 2, 3]),
        ((6, 31), (2, 4), [0, 3, 1, 0]),
        ((5, 5), (7, 7), [3, 3, 3, 3]),
        ((1, 1), (3, 3), [1, 1, 1, 1]),
        ((4, 33), (1, 3), [0, 2, 0, 2]),
        ((3, 40), (3, 2), [2, 0, 2, 0]),
    ],
)
def test_padded_convolutions_need_no_copy(size, kernel, pads, strides, groups):
    channels = (16, 16 if groups > 1 else 32)
    kernels = checked(conv(size, kernel, pads, channels, groups, strides))
    assert not any("pad" in name for name in kernels), kernels


@pytest.mark.parametrize(
    ("kernel", "pads"), [((1, 1), [1, 1, 1, 1]), ((1, 19), [0, 9, 0, 9]), ((1, 3), [1, 1, 1, 1])]
)
def test_windows_of_one_tap_or_many_are_padded_before(kernel, pads):
    assert any("pad" in name for name in checked(conv((9, 45), kernel, pads)))


def test_pictures_of_few_channels_are_padded_where_they_are_laid_out():
    kernels = checked(conv((20, 31), (3, 3), [1, 1, 1, 1], (3, 32)))
    assert any("transpose" in name and "pad" in name for name in kernels)


def test_sums_are_free_of_conditions_and_of_taps_beyond_the_border():
    """A line of 14 pixels under 3 taps is 40 products a channel, not 42."""
    func = kernel_of(conv((5, 14), (3, 3), [1, 1, 1, 1]))
    assert "if_then_else" not in func.script()
    inside_depth = [
        stmt
        for stmt, around in statements(func.body)
        if any(isinstance(s, tirx.For) and int(s.extent) == DEPTH for s in around)
    ]
    assert not any(isinstance(stmt, tirx.IfThenElse) for stmt in inside_depth)
    assert sum(isinstance(stmt, tirx.BufferStore) for stmt in inside_depth) == 40


def test_infinite_weights_do_not_show_in_the_padding():
    model = conv((6, 20), (3, 3), [1, 1, 1, 1])
    weight = model.graph.initializer[0]
    values = onnx.numpy_helper.to_array(weight).copy()
    values[:, :, 0, :] = np.inf
    weight.CopyFrom(onnx.numpy_helper.from_array(values, weight.name))
    inputs = {"x": np.ones((1, 16, 6, 20), "float32")}
    (y,) = sc.compiled(model, 2).model.run(inputs).values()
    assert np.isfinite(y[:, :, 0]).all()
    assert np.isinf(y[:, :, 1:]).all()


def test_blocks_of_rows_start_where_far_taps_meet_the_image():
    """Of 33 pixels under taps 12 apart, blocks of 14 would have 2 and 5 in some of their sums."""
    far = [range(12, 33), range(33), range(21)]
    device = sc.device(2)
    assert rows_of(33, device, spans=far) == 12
    assert rows_of(33, device, spans=[range(33)]) == rows_of(33, device) == 14
    assert rows_of(33, device, spans=[range(0), range(33)]) == 14
    model = conv((2, 33), (1, 3), [0, 12, 0, 12], dilation=12)
    loops = [s for s, _ in statements(kernel_of(model).body) if isinstance(s, tirx.For)]
    assert sum(int(loop.extent) == DEPTH for loop in loops) == 7  # 8 with blocks of 14
    checked(model)


@settings(max_examples=200, deadline=None)
@given(
    extent=st.integers(1, 20),
    taps=st.lists(st.integers(1, 4), min_size=1, max_size=2),
    bounds=st.lists(
        st.tuples(st.integers(0, 1), st.integers(-3, 3), st.integers(-9, 9), st.integers(-12, 12)),
        min_size=1,
        max_size=4,
    ),
)
def test_spans_are_where_all_bounds_of_a_tap_hold(extent, taps, bounds):
    line = Atom("line", extent)
    atoms = [Atom(f"tap{number}", count) for number, count in enumerate(taps)]
    made = tuple(
        padding.Bound(((line, step), (atoms[which % len(taps)], each)), const)
        for which, step, each, const in bounds
    )
    found = padding.Padding(Const(0.0, "float32"), made, line)
    used = list(dict.fromkeys(bound.strides[1][0] for bound in made))
    expected = [
        [
            position
            for position in range(extent)
            if all(found.holds(b, position, at[used.index(b.strides[1][0])]) for b in made)
        ]
        for at in itertools.product(*(range(atom.extent) for atom in used))
    ]
    assert [list(span) for span in found.spans()] == expected


COMPARE = {"GE": operator.ge, "GT": operator.gt, "LE": operator.le, "LT": operator.lt}
RADICES = st.lists(st.integers(2, 4), min_size=1, max_size=3)
TERM = st.tuples(st.integers(-8, 8), st.integers(0, 1), st.integers(1, 9), st.integers(2, 12))


def in_digits(radices: list[int], name: str) -> tuple[Axis, list[tuple[Atom, int]]]:
    """Return an axis with its digits, outer first, and their weights."""
    weights = [math.prod(radices[at + 1 :]) for at in range(len(radices))]
    atoms = [Atom(f"{name}{at}", extent) for at, extent in enumerate(radices)]
    return Axis(name, math.prod(radices)), list(zip(atoms, weights, strict=True))


def digit(scale: int, axis: Axis, low: int, extent: int) -> Expr:
    """Return `scale * ((axis // low) % extent)`."""
    value: Expr = AxisRef(axis)
    for name, number in (("FloorDiv", low), ("FloorMod", extent), ("Mul", scale)):
        value = Op(name, (value, Const(number, "int64")), "int64")
    return value


@settings(max_examples=400, deadline=None)
@given(
    radices=st.tuples(RADICES, RADICES),
    terms=st.lists(TERM, min_size=1, max_size=3),
    const=st.integers(-12, 12),
    name=st.sampled_from(sorted(COMPARE)),
)
@example(([2, 3], [4]), [(1, 0, 2, 3)], -1, "GE")  # // 2 of digits by 3
@example(([4, 2], [4]), [(1, 0, 4, 12), (-1, 1, 2, 12)], 0, "GE")  # two quotients
@example(([4, 2], [4]), [(3, 0, 4, 12)], -2, "GT")  # a multiple of a quotient
def test_a_bound_says_what_the_comparison_says(radices, terms, const, name):
    axes, digits = zip(*map(in_digits, radices, "vk"), strict=True)
    left: Expr = Const(const, "int64")
    for scale, axis, low, extent in terms:
        left = Op("Add", (left, digit(scale, axes[axis], low, extent)), "int64")
    compare = Op(name, (left, Const(0, "int64")), "bool")
    node = SimpleNamespace(digits=dict(zip(axes, digits, strict=True)))
    bound = padding._bound(compare, node)
    if bound is None:
        return
    for values in itertools.product(*(range(axis.extent) for axis in axes)):
        at = {
            atom: value // weight % atom.extent
            for value, each in zip(values, digits, strict=True)
            for atom, weight in each
        }
        whole = const + sum(s * (values[a] // low % extent) for s, a, low, extent in terms)
        reached = bound.const + sum(stride * at[atom] for atom, stride in bound.strides)
        assert (reached >= 0) == COMPARE[name](whole, 0), (bound, values)
