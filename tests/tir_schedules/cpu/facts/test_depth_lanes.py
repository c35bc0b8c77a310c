"""The last lanes of a product, summed along the depth: which are, and that all are right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tvm import te, tirx

from support.kernels import stitch_case as sc
from support.kernels.scheduled import run
from tir_schedules.cpu.cost.latency import estimate
from tir_schedules.cpu.facts.products.depth_lanes import lanes_along_depth
from tir_schedules.cpu.plan.kernel_plan import Plan
from tir_schedules.cpu.template import emit_plan
from tir_schedules.default_plan import plan_prim_func

DEVICE = replace(sc.device(2), vector_bytes=64)
NARROW = replace(sc.device(2), vector_bytes=32)


def product(
    rows: int, depth: int, columns: int, dtype: str = "float32", out: str | None = None
) -> tirx.PrimFunc:
    x = te.placeholder((rows, depth), dtype, "x")
    w = te.placeholder((depth, columns), dtype, "w")
    k, out = te.reduce_axis((0, depth), "k"), out or dtype

    def value(i: tirx.Var, j: tirx.Var) -> tirx.Expr:
        return te.sum(x[i, k].astype(out) * w[k, j].astype(out), k)

    return te.create_prim_func([x, w, te.compute((rows, columns), value, "out")])


def apart(plan: Plan) -> list[int]:
    """Return how many last lanes of each register tile are summed along the depth."""
    found = []
    for phase in plan.phases:
        for group in phase.products():
            left = group.dims[-1].extent % group.lanes
            found.append(lanes_along_depth(left, group, phase, plan.vector_bytes))
    return found


@pytest.mark.parametrize(
    ("func", "expected"),
    [
        (product(56, 512, 17), 1),
        (product(56, 512, 18), 2),
        (product(56, 512, 19), 3),
        (product(56, 512, 20), 4),
        (product(56, 512, 21), 0),  # five lanes gathered take as long as a register
        (product(56, 512, 32), 0),
        (product(56, 512, 49), 1),
        (product(56, 512, 63), 0),
        (product(56, 8, 17), 0),  # the depth fills no register
        (product(4, 512, 18), 2),
        (product(4, 512, 19), 0),  # what is gathered is for few rows
        (product(56, 512, 9, "float64"), 1),
        (product(56, 515, 17, "float16", "float32"), 1),
    ],
)
def test_lanes_are_summed_along_the_depth_where_that_takes_fewer_instructions(func, expected):
    assert apart(plan_prim_func(func, DEVICE)) == [expected]


def test_rows_that_do_not_lie_along_the_depth_are_no_lanes():
    x = te.placeholder((512, 56), "float32", "x")
    w = te.placeholder((512, 17), "float32", "w")
    k = te.reduce_axis((0, 512), "k")
    out = te.compute((56, 17), lambda i, j: te.sum(x[k, i] * w[k, j], k), "out")
    assert apart(plan_prim_func(te.create_prim_func([x, w, out]), DEVICE)) == [0]


def test_terms_that_are_chosen_by_their_place_are_no_lanes():
    x = te.placeholder((56, 512), "float32", "x")
    w = te.placeholder((512, 17), "float32", "w")
    k = te.reduce_axis((0, 512), "k")

    def value(i: tirx.Var, j: tirx.Var) -> tirx.Expr:
        return te.sum(tirx.if_then_else(k >= i, x[i, k] * w[k, j], tirx.const(0.0, "float32")), k)

    func = te.create_prim_func([x, w, te.compute((56, 17), value, "out")])
    assert not any(apart(plan_prim_func(func, DEVICE)))


def arrays_of(func: tirx.PrimFunc, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    made = []
    for param in func.params:
        shape = [int(n) for n in param.ty.shape]
        dtype = str(param.ty.dtype.dtype)
        whole = rng.integers(-9, 9, shape) if "int" in dtype else rng.standard_normal(shape)
        made.append(whole.astype(dtype))
    return made


@pytest.mark.parametrize("device", [DEVICE, NARROW], ids=["64 bytes", "32 bytes"])
@pytest.mark.parametrize(
    ("rows", "depth", "columns", "dtype", "out"),
    [
        (56, 512, 17, "float32", "float32"),
        (29, 515, 33, "float32", "float32"),
        (61, 131, 33, "float32", "float32"),
        (43, 300, 49, "float32", "float32"),
        (30, 257, 9, "float64", "float64"),
        (30, 257, 17, "float16", "float32"),
        (30, 257, 17, "int8", "int32"),
    ],
)
def test_sums_along_the_depth_are_right(rows, depth, columns, dtype, out, device):
    func = product(rows, depth, columns, dtype, out)
    plan = plan_prim_func(func, device)
    assert any(apart(plan))
    x, w, got = arrays_of(func, seed=rows)
    run(emit_plan(plan, func), x, w, got)
    expected = x.astype(np.float64) @ w.astype(np.float64)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_what_follows_the_sums_of_such_a_lane_is_right():
    x = te.placeholder((45, 300), "float32", "x")
    w = te.placeholder((300, 34), "float32", "w")
    bias = te.placeholder((34,), "float32", "bias")
    beside = te.placeholder((45, 34), "float32", "beside")
    k = te.reduce_axis((0, 300), "k")
    made = te.compute((45, 34), lambda i, j: te.sum(x[i, k] * w[k, j], k), "made")
    out = te.compute((45, 34), lambda i, j: te.abs(made[i, j] + bias[j]) - beside[i, j], "out")
    func = te.create_prim_func([x, w, bias, beside, out])
    plan = plan_prim_func(func, DEVICE)
    assert apart(plan) == [2]
    assert plan.phases[0].groups[0].epilogue is not None
    a, b, c, d, got = arrays_of(func, seed=1)
    run(emit_plan(plan, func), a, b, c, d, got)
    expected = np.abs(a.astype(np.float64) @ b + c) - d
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_a_lane_along_the_depth_is_predicted_to_take_less_than_a_register():
    plans = [plan_prim_func(product(4096, 512, n), DEVICE) for n in (16, 17, 21, 32)]
    whole, one, five, two = (estimate(plan, DEVICE).compute for plan in plans)
    assert whole < one < 1.3 * whole
    assert five == pytest.approx(two)
