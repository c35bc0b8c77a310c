"""Lanes that lie apart are picked of whole registers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te, tirx
from zoo.graph import Graph

from support.kernels import stitch_case as sc
from support.kernels import tir
from support.kernels.checked import checked
from support.kernels.scheduled import run, scheduled
from tir_schedules.cpu.emit.access.strided import registers_of
from tir_schedules.default_plan import plan_prim_func

STEPS = [-8, -5, -3, -2, -1, 2, 3, 4, 7, 8]


@given(lanes=st.sampled_from([4, 8, 16, 32, 64]), step=st.sampled_from(STEPS))
def test_each_lane_is_of_a_register_between_the_first_and_the_last_element(lanes, step):
    span = (lanes - 1) * abs(step) + 1
    elements = np.arange(span)[::step] if step > 0 else np.arange(span)[::-1][::-step]
    registers, seen = registers_of(lanes, step), {}
    for start, held in registers:
        assert start >= 0
        assert start + lanes <= span
        seen |= {lane: start + place for lane, place in held.items()}
    assert [seen[lane] for lane in range(lanes)] == elements.tolist()
    assert sum(len(held) for _, held in registers) == lanes
    assert len(registers) <= abs(step)


def slices(rows: int, size: int, step: int, dtype: str) -> tuple[tirx.PrimFunc, range]:
    """Return a kernel that adds to every second element or so of a line the one beside it."""
    at = range(size - 2, -1, step) if step < 0 else range(0, size - 1, step)
    x = te.placeholder((rows, size), dtype, "x")

    def point(i: te.Var, j: te.Var) -> te.Expr:
        return x[i, at.start + step * j] + x[i, at.start + step * j + 1]

    return te.create_prim_func([x, te.compute((rows, len(at)), point, "y")]), at


def shuffles(kernel: tirx.PrimFunc) -> int:
    stores = (s for s, _ in tir.statements(kernel.body) if isinstance(s, tirx.BufferStore))
    return sum(isinstance(s.value, tirx.Shuffle) for s in stores)


@settings(max_examples=20, deadline=None)
@given(
    rows=st.integers(1, 5),
    size=st.integers(2, 700),
    step=st.sampled_from(STEPS),
    dtype=st.sampled_from(["float32", "float64", "int32", "int64", "float16"]),
)
def test_elements_apart_are_read_to_the_last(rows, size, step, dtype):
    kernel, at = slices(rows, size, step, dtype)
    x = (np.random.default_rng(size).standard_normal((rows, size)) * 50).astype(dtype)
    y = np.zeros((rows, len(at)), dtype)
    run(scheduled(kernel, sc.device(1)), x, y)
    np.testing.assert_array_equal(y, x[:, list(at)] + x[:, [n + 1 for n in at]])


def pairs(dtype: str, rows: int, size: int) -> tirx.PrimFunc:
    """Return a kernel that compares neighbours of what it has made before."""
    x = te.placeholder((rows, size), "float32", "x")

    def value(i: te.Var, j: te.Var) -> te.Expr:
        made = te.exp(x[i, j])
        return made > 1 if dtype == "bool" else made.astype(dtype)

    made = te.compute((rows, size), value, "made")

    def other(i: te.Var, j: te.Var) -> te.Expr:
        even, odd = made[i, 2 * j], made[i, 2 * j + 1]
        return tirx.Select(even == odd, tirx.const(0, dtype), odd)

    return te.create_prim_func([x, te.compute((rows, size // 2), other, "other")])


@pytest.mark.parametrize("dtype", ["bool", "bfloat16", "float16", "float32", "float64", "int8"])
def test_lines_of_any_dtype_are_stored_apart(dtype):
    """Memory of bool is int8, of bfloat16 its bits: lanes on their way to it have the same."""
    x = np.random.default_rng().standard_normal((5, 1000), np.float32)
    x[:, 1::2] = np.where(x[:, 1::2] > 0.5, x[:, ::2], x[:, 1::2])
    memory = np.dtype(getattr(ml_dtypes, dtype, dtype))
    made = np.exp(x.astype("f8")).astype("f4")
    made = made > 1 if dtype == "bool" else made.astype(memory)
    y, kernel = np.zeros((5, 500), memory), pairs(dtype, 5, 1000)
    assert plan_prim_func(kernel, sc.device(1)).phases[0].deinterleaved
    run(scheduled(kernel, sc.device(1)), x, y)
    even, odd = made[:, ::2], made[:, 1::2]
    want = np.where(even == odd, np.zeros_like(odd), odd)
    np.testing.assert_allclose(y.astype("f8"), want.astype("f8"), 1e-2)


@pytest.mark.parametrize(("step", "expected"), [(2, True), (-2, True), (8, True), (9, False)])
def test_registers_are_loaded_whole_where_a_step_is_small(step, expected):
    kernel, _ = slices(4, 1000, step, "float32")
    assert bool(shuffles(scheduled(kernel, sc.device(1)))) is expected


def test_what_may_lie_outside_is_loaded_alone():
    """Row 0 would be read of what is before the tensor."""
    x = te.placeholder((99, 64), "float32", "x")

    def point(i: te.Var, j: te.Var) -> te.Expr:
        return tirx.if_then_else(i >= 1, x[i - 1, 2 * j], tirx.const(0, "float32"))

    kernel = te.create_prim_func([x, te.compute((100, 32), point, "y")])
    assert not shuffles(scheduled(kernel, sc.device(1)))


def interleaved(heads: int, rows: int, size: int) -> onnx.ModelProto:
    """Return a rotation of neighbouring elements, as of positions in a sequence."""
    g = Graph("interleaved")
    x = g.input("x", (heads, rows, size))
    even, odd = (g.op("Slice", x, *(g.ints(v) for v in (n, size, 2, 2))) for n in (0, 1))
    cos, sin = (g.weight(name, (rows, size // 2)) for name in ("cos", "sin"))
    first = g.op("Sub", g.op("Mul", even, cos), g.op("Mul", odd, sin))
    second = g.op("Add", g.op("Mul", even, sin), g.op("Mul", odd, cos))
    sums = g.op("ReduceSum", g.op("Mul", even, odd), g.ints(2))
    g.output(g.op("Concat", first, second, axis=2), "y", (heads, rows, size))
    g.output(sums, "z", (heads, rows, 1))
    return g.model()


@pytest.mark.parametrize("size", [10, 64, 130])
def test_neighbours_are_rotated(size):
    checked(interleaved(3, 17, size))


def test_images_are_read_every_second_line_and_column():
    g = Graph("quarter")
    x = g.input("x", (2, 5, 15, 23))
    quarter = g.op("Slice", x, *(g.ints(*v) for v in ((1, 0), (15, 23), (2, 3), (2, 2))))
    g.output(g.op("Softmax", g.op("Relu", quarter), axis=3), "y", (2, 5, 7, 12))
    checked(g.model())


@pytest.mark.long(every=2)
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "depthwise"])
@pytest.mark.parametrize(("window", "stride"), [(2, 2), (3, 2), (3, 3), (5, 4)])
def test_windows_without_padding_are_read_so(kind, window, stride):
    g = Graph("windows")
    x = g.input("x", (2, 7, 21, 45))
    attributes = {"kernel_shape": [window] * 2, "strides": [stride] * 2}
    if kind == "depthwise":
        y = g.op("Conv", x, g.weight("w", (7, 1, window, window)), group=7, **attributes)
    else:
        y = g.op(kind, x, **attributes)
    made = [(n - window) // stride + 1 for n in (21, 45)]
    g.output(y, "y", (2, 7, *made))
    model = g.model()
    functions = (func for _, func in sc.compiled(model, 2).mod.functions_items())
    (kernel,) = (func for func in functions if isinstance(func, tirx.PrimFunc))
    assert shuffles(kernel)
    checked(model)
