"""Rows of a product that lie a page apart: few and wide ones, or packed. No bit changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tvm import relax, te, tirx

from relay_passes.rewrites.pack_weights import PackWeights
from support.kernels import stitch_case as sc
from support.kernels.scheduled import run
from support.kernels.tir import statements
from tir_schedules.cpu.facts.products.row_packing import packable
from tir_schedules.cpu.plan.kernel_plan import LoopNest, Phase, Plan
from tir_schedules.cpu.template import emit_plan
from tir_schedules.default_plan import plan_prim_func

ALIASING = replace(sc.device(2).profile, aliasing_ns=1.0)
DEVICE = replace(sc.device(2), vector_bytes=64, l1_bytes=32 << 10, profile=ALIASING)


def product(rows: int, depth: int, columns: int = 32, dtype: str = "float32") -> tirx.PrimFunc:
    x = te.placeholder((rows, depth), dtype, "x")
    w = te.placeholder((depth, columns), dtype, "w")
    k = te.reduce_axis((0, depth), "k")
    out = te.compute((rows, columns), lambda i, j: te.sum(te.abs(x[i, k]) * w[k, j], k), "out")
    return te.create_prim_func([x, w, out])


def chain(rows: int, depth: int) -> tirx.PrimFunc:
    """Return two products, the second of what the first one makes in a tile buffer."""
    x = te.placeholder((rows, depth), "float32", "x")
    w = te.placeholder((depth, depth), "float32", "w")
    v = te.placeholder((depth, 32), "float32", "v")
    k, m = te.reduce_axis((0, depth), "k"), te.reduce_axis((0, depth), "m")
    made = te.compute((rows, depth), lambda i, j: te.sum(x[i, k] * w[k, j], k), "made")
    out = te.compute((rows, 32), lambda i, j: te.sum(made[i, m] * v[m, j], m), "out")
    return te.create_prim_func([x, w, v, out])


def shifted(rows: int, depth: int) -> tirx.PrimFunc:
    """Return a product of rows of which the first begins before the tensor does."""
    x = te.placeholder((rows, depth), "float32", "x")
    w = te.placeholder((depth, 64), "float32", "w")
    k = te.reduce_axis((0, depth), "k")

    def value(i: tirx.Var, j: tirx.Var) -> tirx.Expr:
        inside = tirx.if_then_else(i >= 1, x[i - 1, k], tirx.const(0.0, "float32"))
        return te.sum(inside * w[k, j], k)

    return te.create_prim_func([x, w, te.compute((rows, 64), value, "out")])


def changed(plan: Plan, packed: bool) -> Plan:
    def group(each: LoopNest, phase: Phase) -> LoopNest:
        return replace(each, packed=packable(each, phase) if packed else None)

    phases = (replace(p, groups=tuple(group(g, p) for g in p.groups)) for p in plan.phases)
    return replace(plan, phases=tuple(phases))


def loads(plan: Plan) -> list[str]:
    groups = (g for p in plan.phases for g in p.groups)
    return [g.packed.tensor.name for g in groups if g.packed is not None]


@pytest.mark.parametrize(
    ("func", "packed"),
    [
        (product(28, 1024), ["x"]),
        (product(28, 3072), ["x"]),
        (product(28, 512, columns=16, dtype="float64"), ["x"]),
        (product(28, 1024, columns=96), ["x"]),
        (product(28, 1024, columns=64), []),  # six rows are
        (product(28, 1000), []),
        (product(28, 512), []),  # 7 of 14 rows a set, which 8 ways hold
        (product(8, 1024), []),
        (product(9, 1024), ["x"]),
        (chain(28, 1024), ["made"]),
        (chain(28, 1040), []),
    ],
)
def test_rows_are_packed_that_no_set_of_the_first_cache_holds(func, packed):
    assert loads(plan_prim_func(func, DEVICE)) == packed
    even = replace(DEVICE, profile=replace(ALIASING, aliasing_ns=0.0))
    assert loads(plan_prim_func(func, even)) == []


def test_more_ways_hold_more_rows():
    larger = replace(DEVICE, l1_bytes=64 << 10)
    for columns in (32, 64):
        plan = plan_prim_func(product(28, 1024, columns), larger)
        assert loads(plan) == []
        assert shapes(plan) == [(14, 32)]


def shapes(plan: Plan) -> list[tuple[int, int]]:
    return [(g.rows, g.lanes) for p in plan.phases for g in p.groups]


@pytest.mark.parametrize(
    ("func", "expected"),
    [
        (product(28, 1024, columns=64), (6, 64)),
        (product(28, 1024, columns=192), (6, 64)),
        (product(27, 1024, columns=64), (6, 64)),
        (product(28, 512, columns=32, dtype="float64"), (6, 32)),
        (product(28, 1024, columns=96), (14, 32)),
        (product(28, 1000, columns=64), (14, 32)),
        (product(28, 512, columns=64), (14, 32)),
    ],
)
def test_rows_that_collide_are_few_and_wide_where_they_fill_strips(func, expected):
    assert shapes(plan_prim_func(func, DEVICE)) == [expected]
    even = replace(DEVICE, profile=replace(ALIASING, aliasing_ns=0.0))
    assert shapes(plan_prim_func(func, even)) == [
        (14, expected[1] // (1 if expected[0] == 14 else 2))
    ]


@pytest.mark.parametrize(("values", "rows"), [(1, 5), (2, 4)])
@pytest.mark.parametrize("extent", [11, 12])
def test_what_an_epilogue_reads_of_a_row_takes_registers_of_wide_tiles(values, rows, extent):
    x = te.placeholder((extent, 1024), "float32", "x")
    w = te.placeholder((1024, 64), "float32", "w")
    scales = te.placeholder((values, extent), "float32", "scales")
    bias = te.placeholder((64,), "float32", "bias")
    k = te.reduce_axis((0, 1024), "k")
    made = te.compute((extent, 64), lambda i, j: te.sum(x[i, k] * w[k, j], k), "made")

    def value(i: tirx.Var, j: tirx.Var) -> tirx.Expr:
        scaled = made[i, j] + bias[j]
        for number in range(values):
            scaled = scaled * scales[number, i]
        return te.abs(scaled)

    out = te.compute((extent, 64), value, "out")
    func = te.create_prim_func([x, w, scales, bias, out])
    plan = plan_prim_func(func, DEVICE)
    (group,) = (g for p in plan.phases for g in p.groups)
    assert group.lanes == 64
    assert group.epilogue is not None
    assert group.rows <= rows
    rng = np.random.default_rng(0)
    args = [rng.standard_normal([int(n) for n in p.ty.shape]).astype("float32")
            for p in func.params]  # fmt: skip
    run(emit_plan(plan, func), *args)
    a, b, each, c, got = (arg.astype(np.float64) for arg in args)
    expected = np.abs((a @ b + c) * each.prod(0)[:, None])
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("rows", "columns", "dtype"), [(13, 64, "float32"), (29, 192, "float32"), (7, 32, "float64")]
)
def test_wide_tiles_sum_what_others_do(rows, columns, dtype):
    func = product(rows, 4096 // np.dtype(dtype).itemsize, columns, dtype)
    rng = np.random.default_rng(0)
    x, w = (
        rng.standard_normal([int(n) for n in p.ty.shape]).astype(dtype) for p in func.params[:2]
    )
    expected = np.abs(x).astype(np.float64) @ w
    for device in (DEVICE, replace(DEVICE, l1_bytes=64 << 10)):
        got = np.full((rows, columns), np.nan, dtype)
        run(emit_plan(plan_prim_func(func, device), func), x, w, got)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.long(every=5)
@pytest.mark.parametrize(
    "func",
    [
        *(product(rows, depth, columns=64) for rows in (2, 13, 29) for depth in (32, 47, 1024)),
        product(13, 1024),
        product(15, 100, columns=33),
        product(15, 77, dtype="float64"),
        chain(17, 96),
    ],
)
def test_packed_rows_change_no_bit(func):
    plan = plan_prim_func(func, DEVICE)
    plans = [changed(plan, packed) for packed in (True, False)]
    assert loads(plans[0])
    rng = np.random.default_rng(0)
    shapes = [[int(n) for n in p.ty.shape] for p in func.params]
    dtype = str(func.params[0].ty.dtype.dtype)
    arrays = [rng.standard_normal(shape).astype(dtype) for shape in shapes[:-1]]
    packed, plain = (np.full(shapes[-1], np.nan, dtype) for _ in plans)
    for plan, out in zip(plans, (packed, plain), strict=True):
        run(emit_plan(plan, func), *arrays, out)
    np.testing.assert_array_equal(packed, plain)
    x, *weights = (a.astype(np.float64) for a in arrays)
    expected = x if len(weights) > 1 else np.abs(x)
    for weight in weights:
        expected = expected @ weight
    np.testing.assert_allclose(packed, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "panels"),
    [
        (28, 1024, 128, (2, 1024, 64)),
        (28, 1024, 96, (3, 1024, 32)),
        (28, 1000, 128, (4, 1000, 32)),
        (1, 1024, 128, (4, 1024, 32)),
    ],
)
def test_weights_are_packed_as_wide_as_the_tile_that_reads_them(rows, depth, columns, panels):
    x = relax.Var("x", relax.TensorType((rows, depth), "float32"))
    assert panels_of(x, relax.op.matmul, (depth, columns)) == panels


@pytest.mark.parametrize(
    ("channels", "taps", "step", "panels"),
    [
        (1024, 1, 1, (2, 1, 1, 1024, 64)),
        (512, 1, 2, (2, 1, 1, 512, 64)),
        (512, 1, 1, (4, 1, 1, 512, 32)),
        (1024, 3, 2, (4, 3, 3, 1024, 32)),  # between borders
        (4096, 1, 1, (4, 1, 1, 4096, 32)),  # a wide panel would take half of L2
    ],
)
def test_kernels_of_single_pixels_are_packed_alike(channels, taps, step, panels):
    x = relax.Var("x", relax.TensorType((1, 14, 14, channels), "float32"))

    def convolve(x: relax.Expr, weight: relax.Expr) -> relax.Expr:
        return relax.op.nn.conv2d(x, weight, step, taps // 2, data_layout="NHWC")

    assert panels_of(x, convolve, (128, channels, taps, taps)) == panels


def panels_of(
    x: relax.Var, op: Callable[[relax.Expr, relax.Expr], relax.Expr], shape: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the shape that a weight of an op has when it is packed."""
    builder = relax.BlockBuilder()
    weight = np.random.default_rng(0).standard_normal(shape).astype("float32")
    with builder.function("main", [x]):
        with builder.dataflow():
            made = builder.emit_output(op(x, relax.const(weight)))
        builder.emit_func_output(made)
    packed = PackWeights(DEVICE)(builder.get())
    bound = [b.value for block in packed["main"].body.blocks for b in block.bindings]
    (call,) = (v for v in bound if getattr(v.op, "name", "") == "relax.call_tir")
    return tuple(int(n) for n in call.args[1].fields[1].ty.shape)


def test_a_line_of_each_row_is_copied_and_the_rest_is_read_as_it_lies():
    func = product(14, 1024 + 5)
    plan = changed(plan_prim_func(func, DEVICE), packed=True)
    found = [s for s, _ in statements(emit_plan(plan, func).body)]
    (buffer,) = {s.buffer.name for s in found if isinstance(s, tirx.AllocBuffer)} & {"packed"}
    copies = [s for s in found if isinstance(s, tirx.BufferStore) and s.buffer.name == buffer]
    assert len(copies) == 14
    serial = [s for s in found if isinstance(s, tirx.For) and s.kind == tirx.ForKind.SERIAL]
    assert [int(s.extent) for s in serial if s.loop_var.name == "line"] == [64]


def test_rows_that_begin_outside_the_tensor_are_not_packed():
    func = shifted(15, 1024)
    assert loads(changed(plan_prim_func(func, DEVICE), packed=True)) == []


def test_a_part_of_the_depth_is_not_packed():
    (phase,) = plan_prim_func(product(28, 1024), DEVICE).phases
    (group,) = phase.groups
    assert packable(group, phase) is not None
    assert packable(group, replace(phase, chunks={group.dims[-2]: 512})) is None


@pytest.mark.parametrize(("heads", "packed"), [(1, ["made"]), (8, [])])
def test_rows_of_a_tile_buffer_are_as_far_apart_as_there(heads, packed):
    """Of several heads a tile has one: rows a page apart in memory are not in its buffer."""
    depth = 1024 // heads
    x = te.placeholder((heads, 28, 64), "float32", "x")
    w = te.placeholder((heads, 64, depth), "float32", "w")
    v = te.placeholder((heads, depth, 32), "float32", "v")
    k, m = te.reduce_axis((0, 64), "k"), te.reduce_axis((0, depth), "m")
    made = te.compute(
        (28, heads, depth), lambda i, h, j: te.sum(x[h, i, k] * w[h, k, j], k), "made"
    )
    out = te.compute((28, heads, 32), lambda i, h, j: te.sum(made[i, h, m] * v[h, m, j], m), "out")
    plan = plan_prim_func(te.create_prim_func([x, w, v, out]), DEVICE)
    assert len(plan.phases) == 1
    assert loads(plan) == packed
