"""Convolutions of padded images without a padded copy: loops leave out taps beyond the border."""

from __future__ import annotations

import itertools
import math
import operator
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tvm import relax, tirx
from zoo.graph import Graph

from relay_passes.transform import PackWeights
from support.kernels import stitch_case as sc
from support.kernels.checked import checked
from support.kernels.tir import statements
from support.models import relax_models
from tir_schedules.analysis.iteration_space import Atom
from tir_schedules.cpu.decide.products.row_blocks import rows_of
from tir_schedules.cpu.facts import padding
from tir_schedules.kernel_ir.expr import Axis, AxisRef, Const, Expr, Op

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
    mod = sc.lowered(model)
    (found,) = (f for v, f in mod.functions_items() if "convolve" in v.name_hint)
    return found


@pytest.mark.long(every=15)
@pytest.mark.parametrize("groups", [1, 16])
@pytest.mark.parametrize("strides", [(1, 1), (2, 3)])
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


def is_depth(extent) -> bool:
    return isinstance(extent, tirx.IntImm) and int(extent) == DEPTH


def test_sums_are_free_of_conditions_and_of_taps_beyond_the_border():
    """A line of 14 pixels under 3 taps is 40 products a channel, not 42."""
    func = kernel_of(conv((5, 14), (3, 3), [1, 1, 1, 1]))
    assert "if_then_else" not in func.script()
    inside_depth = [
        stmt
        for stmt, around in statements(func.body)
        if any(isinstance(s, tirx.For) and is_depth(s.extent) for s in around)
    ]
    assert not any(isinstance(stmt, tirx.IfThenElse) for stmt in inside_depth)
    assert sum(isinstance(stmt, tirx.BufferStore) for stmt in inside_depth) == 40


def test_code_does_not_grow_with_the_border():
    """Blocks of a line for which the same taps count are a loop, inside the image or not."""
    sizes = set()
    for dilation in (16, 48):
        pads = [0, dilation, 0, dilation]
        func = kernel_of(conv((2, 4 * dilation), (1, 3), pads, dilation=dilation))
        sizes.add(sum(isinstance(stmt, tirx.BufferStore) for stmt, _ in statements(func.body)))
    assert max(sizes) < 1.5 * min(sizes)


@pytest.mark.long(every=5)
@pytest.mark.parametrize("strides", [(1, 1), (1, 3)])
@pytest.mark.parametrize("dilation", [20, 45, 100])
def test_wide_borders_are_right(dilation, strides):
    pads = [dilation, dilation, dilation, dilation]
    checked(conv((5, 131), (3, 3), pads, strides=strides, dilation=dilation))


SPECIAL = [np.inf, -np.inf, np.nan]


def exact(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Return what ONNX says: optimised, ONNX Runtime leaves paddings out itself."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (y,) = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, inputs)
    return y


@pytest.mark.long(every=10)
@pytest.mark.parametrize("special", SPECIAL, ids=str)
@pytest.mark.parametrize(
    ("shape", "weight", "attributes"),
    [
        pytest.param((1, 16, 6, 20), (32, 16, 3, 3), {"pads": [1] * 4}, id="dense"),
        pytest.param((1, 64, 32, 32), (64, 64, 3, 3), {"pads": [1] * 4}, id="filtered"),
        pytest.param((1, 3, 9, 21), (32, 3, 3, 3), {"pads": [1] * 4}, id="picture"),
        pytest.param((1, 64, 9, 14), (3, 64, 3, 3), {"pads": [1] * 4}, id="few-results"),
        pytest.param((1, 16, 9, 14), (16, 1, 3, 3), {"pads": [1] * 4, "group": 16}, id="depthwise"),
        pytest.param((1, 32, 9, 14), (32, 8, 3, 3), {"pads": [0, 1] * 2, "group": 4}, id="groups"),
        pytest.param((1, 16, 33), (32, 16, 3), {"pads": [2, 0], "dilations": [2]}, id="line"),
        pytest.param((1, 16, 3, 5, 9), (16, 16, 3, 3, 3), {"pads": [1] * 6}, id="volume"),
        pytest.param(
            (1, 16, 9, 9), (32, 16, 3, 3), {"strides": [2] * 2, "pads": [1] * 4}, id="steps"
        ),
        pytest.param((1, 16, 9, 14), (32, 16, 1, 1), {"pads": [1] * 4}, id="pointwise"),
    ],
)
def test_zeros_of_the_padding_are_multiplied_by_infinite_weights(
    shape, weight, attributes, special
):
    g = Graph("conv")
    x = g.input("x", shape)
    if attributes.get("group", 1) > 1:  # channels last behind another only
        x = g.op("Conv", x, g.weight("v", (shape[1], shape[1], 1, 1)))
    values = np.random.default_rng(0).standard_normal(weight).astype("float32")
    values[::2, :, 0] = special
    y = g.op("Conv", x, g.initializer("w", values), **attributes)
    g.output(g.op("Relu", y), "y", ("n", "c", *map(str, range(len(shape) - 2))))
    model, inputs = g.model(), {"x": np.ones(shape, "float32")}
    expected = exact(model, inputs)
    assert np.isnan(expected).any()
    (y,) = sc.compiled(model, 2).model.run(inputs).values()
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("special", SPECIAL, ids=str)
def test_a_padded_copy_keeps_its_zeros(special):
    """A Pad of its own may be fused with the convolution: its zeros are multiplied too."""
    g = Graph("pad")
    x = g.op("Pad", g.input("x", (1, 16, 6, 20)), g.ints(*[0, 0, 1, 1] * 2))
    values = np.ones((32, 16, 3, 3), "float32")
    values[:, :, 0] = special
    g.output(g.op("Relu", g.op("Conv", x, g.initializer("w", values))), "y", (1, 32, 6, 20))
    model, inputs = g.model(), {"x": np.ones((1, 16, 6, 20), "float32")}
    (y,) = sc.compiled(model, 2).model.run(inputs).values()
    np.testing.assert_array_equal(y, exact(model, inputs))


@pytest.mark.parametrize("depthwise", [False, True])
def test_a_weight_that_is_not_known_may_be_infinite(depthwise):
    g, depth = Graph("given"), 1 if depthwise else 16
    x, w = g.input("x", (1, 16, 9, 14)), g.input("w", (16, depth, 3, 3))
    y = g.op("Conv", x, w, pads=[1] * 4, group=16 if depthwise else 1)
    g.output(g.op("Relu", y), "y", (1, 16, 9, 14))
    values = np.ones((16, depth, 3, 3), "float32")
    values[:, :, 0] = np.inf
    model, inputs = g.model(), {"x": np.ones((1, 16, 9, 14), "float32"), "w": values}
    (y,) = sc.compiled(model, 2).model.run(inputs).values()
    np.testing.assert_array_equal(y, exact(model, inputs))


@pytest.mark.parametrize("bound", [False, True], ids=["parameter", "constant"])
@pytest.mark.parametrize("special", [1.0, np.inf])
def test_in_a_pipeline_a_weight_without_numbers_multiplies_zeros(bound, special):
    x, weight = np.ones((1, 6, 20, 16), "float32"), np.ones((32, 16, 3, 3), "float32")
    weight[:, :, 0] = special

    def conv2d(builder: relax.BlockBuilder, x: relax.Expr, w: relax.Expr) -> relax.Expr:
        layouts = {"data_layout": "NHWC", "kernel_layout": "OIHW"}
        return builder.emit(relax.op.nn.conv2d(x, w, padding=1, **layouts))

    if bound:
        given = (x,)
        mod = relax_models.module(lambda b, x: conv2d(b, x, relax.const(weight)), x)
    else:
        given = (x, weight)
        mod = relax_models.module(conv2d, x, weight)
    mod["main"] = mod["main"].with_attr("num_input", 1)
    with relax_models.cpu():
        mod = PackWeights()(mod)
    padded = any("pad" in str(b.value) for block in mod["main"].body.blocks for b in block.bindings)
    assert padded == (not bound or special == np.inf)
    executable = tvm.compile(mod, relax_models.cpu(), relax_pipeline="tvm_stitch")
    made = relax.VirtualMachine(executable, tvm.cpu())["main"](*map(tvm.runtime.tensor, given))
    assert np.isnan(made.numpy()).any() == (special == np.inf)


def test_blocks_of_rows_start_where_far_taps_meet_the_image():
    """Of 32 pixels under taps 8 apart, nine blocks of 11 in all sums, or eight of 12."""
    far = [range(8, 32), range(32), range(24)]
    device = sc.device(2)
    assert rows_of(32, device, spans=far) == 12
    assert rows_of(32, device, spans=[range(32)]) == rows_of(32, device) == 11
    assert rows_of(32, device, spans=[range(0), range(32)]) == 11
    model = conv((2, 32), (1, 3), [0, 8, 0, 8], dilation=8)
    loops = [s for s, _ in statements(kernel_of(model).body) if isinstance(s, tirx.For)]
    assert sum(int(loop.extent) == DEPTH for loop in loops) == 6  # 7 with blocks of 11
    checked(model)


@settings(max_examples=80, deadline=None)
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


@settings(max_examples=150, deadline=None)
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
