"""The latency evaluator: what must make a plan dearer, and that it reads every plan there is."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest
import zoo
from tvm import te, tirx

from support.kernels import stitch_case as sc
from tir_schedules import apply
from tir_schedules.cpu.cost.latency import Latency, estimate
from tir_schedules.cpu.plan.kernel_plan import Plan
from tir_schedules.default_plan import plan_prim_func

DEVICE = replace(sc.device(2), l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=32 << 20)
PROFILE = DEVICE.profile


def planned(function, rows: int, columns: int, threads: int = 1) -> tuple[Plan, Latency]:
    x = te.placeholder((rows, columns), "float32", "x")
    out = te.compute((rows, columns), lambda i, j: function(x[i, j]), "out")
    return evaluated(te.create_prim_func([x, out]), threads)


def evaluated(func: tirx.PrimFunc, threads: int) -> tuple[Plan, Latency]:
    device = replace(DEVICE, threads=threads)
    plan = plan_prim_func(func, device)
    assert isinstance(plan, Plan), plan
    return plan, estimate(plan, device)


def test_a_polynomial_costs_what_the_profile_says_more_than_a_sum():
    rows, columns = 64, 1024
    _, light = planned(lambda v: v + tirx.const(1.0, "float32"), rows, columns)
    _, heavy = planned(tirx.erf, rows, columns)
    registers = rows * columns * 4 / DEVICE.vector_bytes
    more = registers * (PROFILE.op_ns["erf"] - PROFILE.op_ns["light"])
    assert heavy.compute - light.compute == pytest.approx(more)
    assert heavy.traffic == light.traffic


@pytest.mark.parametrize("reduced", [False, True])
def test_registers_hold_half_as_many_points_of_float64(reduced):
    def compute(dtype: str) -> float:
        x = te.placeholder((64, 1024), dtype, "x")
        k = te.reduce_axis((0, 1024), "k")
        out = te.compute((64,), lambda i: te.sum(x[i, k], axis=k), "out")
        if not reduced:
            out = te.compute(x.shape, lambda i, j: x[i, j] * x[i, j], "out")
        return evaluated(te.create_prim_func([x, out]), 1)[1].compute

    folds = 64 * PROFILE.fold_ns * reduced
    assert compute("float64") - folds == pytest.approx(2 * (compute("float32") - folds))


@pytest.mark.parametrize("threads", [1, 2])
def test_bytes_beyond_the_caches_cost_their_bandwidth(threads):
    rows = 1 << 15
    plan, far = planned(tirx.abs, rows, 1024, threads)
    _, near = planned(tirx.abs, rows // 1024, 1024, threads)
    assert far.traffic > 1024 * 1.5 * near.traffic
    moved = 2 * rows * 1024 * 4
    memory = PROFILE.bandwidth("memory", threads)
    best = moved / max(memory.read, memory.copy, memory.stream)
    assert far.total >= 0.9 * best
    plain = replace(plan, streamed=())
    assert estimate(plain, replace(DEVICE, threads=threads)).total >= far.total


def test_threads_divide_the_work_and_pay_for_the_region():
    plan, two = planned(tirx.erf, 512, 1024, threads=2)
    alone = estimate(replace(plan, parallel=False), DEVICE)
    assert alone.regions == PROFILE.call_ns
    assert two.regions == PROFILE.call_ns + PROFILE.region(2)
    assert alone.total / 2 <= two.total < alone.total


def test_an_uneven_share_of_tiles_takes_whole_rounds():
    plan, _ = planned(tirx.erf, 128, 1024, threads=2)
    uneven = estimate(replace(plan, tasks=3), DEVICE)
    even = estimate(replace(plan, tasks=64), DEVICE)
    spent = even.compute + even.traffic / 4
    assert uneven.total - uneven.regions == pytest.approx(spent * 2 / 3, rel=0.2)
    assert uneven.total > even.total


def test_lanes_that_do_not_run_in_vectors_cost_their_number():
    plan, vector = planned(tirx.erf, 64, 1024)
    (phase,) = plan.phases
    groups = tuple(replace(g, lanes=1) for g in phase.groups)
    scalar = estimate(replace(plan, phases=(replace(phase, groups=groups),)), DEVICE)
    assert scalar.compute == pytest.approx(vector.compute * DEVICE.vector_bytes / 4)


def by_row(function, rows: int, columns: int) -> tirx.PrimFunc:
    """Return function(x[i, j], s[i]) over rows, which coalesce into no longer loop."""
    x = te.placeholder((rows, columns), "float32", "x")
    s = te.placeholder((rows,), "float32", "s")
    out = te.compute(x.shape, lambda i, j: function(x[i, j], s[i]), "out")
    return te.create_prim_func([x, s, out])


def test_a_ragged_end_takes_a_register_for_each_of_its_pieces():
    lanes = DEVICE.vector_bytes // 4
    _, whole = evaluated(by_row(lambda x, s: x + s, 64, lanes * 8), 1)
    _, ragged = evaluated(by_row(lambda x, s: x + s, 64, lanes * 8 - 1), 1)
    pieces = (lanes - 1).bit_count()
    assert ragged.compute == pytest.approx(whole.compute * (7 + pieces) / 8)


@pytest.mark.parametrize("vector_bytes", [32, 64])
@pytest.mark.parametrize("worth", [2.0, 1e9])
def test_a_divisor_settled_outside_the_lanes_costs_no_division_that_is_slow(vector_bytes, worth):
    thresholds = replace(PROFILE.thresholds, division_worth=worth)
    slow = replace(PROFILE, op_ns={**PROFILE.op_ns, "divide": 99.0}, thresholds=thresholds)
    device = replace(DEVICE, vector_bytes=vector_bytes, profile=slow, threads=1)
    both = (by_row(lambda x, s: x / s, 64, 1024), by_row(lambda x, s: s / x, 64, 1024))
    settled, moving = (estimate(plan_prim_func(f, device), device).compute for f in both)
    registers = 64 * 1024 * 4 / vector_bytes
    assert moving == pytest.approx(registers * 99.0)
    each = 6 * slow.op_ns["light"] if worth == 2.0 else 99.0
    assert settled == pytest.approx(registers * each)


def test_rows_as_short_as_the_lanes_pay_for_folding():
    def sums(rows: int, columns: int) -> Latency:
        x = te.placeholder((rows, columns), "float32", "x")
        j = te.reduce_axis((0, columns), "j")
        out = te.compute((rows,), lambda i: te.sum(x[i, j], j), "out")
        return evaluated(te.create_prim_func([x, out]), 1)[1]

    short, long = sums(4096, 64), sums(256, 1024)
    assert short.compute - long.compute == pytest.approx((4096 - 256) * PROFILE.fold_ns)


@pytest.mark.long(every=4)
@pytest.mark.parametrize("name", list(zoo.SUBGRAPHS))
def test_every_plan_of_the_zoo_has_a_time(name):
    plans = []

    def keep(func: tirx.PrimFunc, device: object) -> Plan | str:
        plans.append(plan_prim_func(func, device))
        return plans[-1]

    model = zoo.subgraph(name, zoo.bench_shapes(name)["cache"])
    with mock.patch.object(apply, "plan_prim_func", keep):
        sc.compiled(model)
    plan = plans[0]  # others prepare weights
    spent = estimate(plan, DEVICE)
    assert 0 < spent.compute < spent.total * 4
    assert 0 < spent.traffic < spent.total * 4
