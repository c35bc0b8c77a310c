"""Rows of a product that lie a page apart are packed: when, and that no bit of a result changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import stitch_case as sc
from stitch_tir import statements
from test_elementwise_code import run
from tvm import te, tirx

from tir_schedules.cpu.plan import LoopGroup, Phase, Plan
from tir_schedules.cpu.row_packing import packable
from tir_schedules.cpu.template import emit_plan, plan_prim_func

ALIASING = replace(sc.device(2).profile, aliasing_ns=1.0)
DEVICE = replace(sc.device(2), vector_bytes=64, l1_bytes=32 << 10, profile=ALIASING)


def product(rows: int, depth: int, columns: int = 64, dtype: str = "float32") -> tirx.PrimFunc:
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
    def group(each: LoopGroup, phase: Phase) -> LoopGroup:
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
        (product(28, 512, dtype="float64"), ["x"]),
        (product(28, 1000), []),
        (product(28, 512), []),  # 7 of 14 rows a set, which 8 ways hold
        (product(8, 1024), []),
        (product(9, 1024), ["x"]),
        (chain(28, 1024), ["x", "made"]),
        (chain(28, 1040), []),
    ],
)
def test_rows_are_packed_that_no_set_of_the_first_cache_holds(func, packed):
    assert loads(plan_prim_func(func, DEVICE)) == packed
    even = replace(DEVICE, profile=replace(ALIASING, aliasing_ns=0.0))
    assert loads(plan_prim_func(func, even)) == []


def test_more_ways_hold_more_rows():
    assert loads(plan_prim_func(product(28, 1024), replace(DEVICE, l1_bytes=64 << 10))) == []


@pytest.mark.parametrize(
    "func",
    [
        *(product(rows, depth) for rows in (2, 13, 29) for depth in (32, 47, 1024)),
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
    v = te.placeholder((heads, depth, 64), "float32", "v")
    k, m = te.reduce_axis((0, 64), "k"), te.reduce_axis((0, depth), "m")
    made = te.compute(
        (28, heads, depth), lambda i, h, j: te.sum(x[h, i, k] * w[h, k, j], k), "made"
    )
    out = te.compute((28, heads, 64), lambda i, h, j: te.sum(made[i, h, m] * v[h, m, j], m), "out")
    plan = plan_prim_func(te.create_prim_func([x, w, v, out]), DEVICE)
    assert len(plan.phases) == 1
    assert loads(plan) == packed
