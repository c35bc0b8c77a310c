"""Where a tile would cut rows into strips, and what a nest may hold side by side."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tvm import te, tirx

from support.kernels import stitch_case as sc
from support.kernels.scheduled import run, scheduled
from tir_schedules.cpu.accept.acceptance import refuse_plan
from tir_schedules.cpu.cost import latency, strips
from tir_schedules.cpu.plan.kernel_plan import Plan
from tir_schedules.default_plan import plan_prim_func
from tir_schedules.device import CpuDevice
from tir_schedules.device.profile import default_profile

DEVICE = replace(sc.device(2), l2_bytes=1 << 20)


def vector_then_rows(rows: int, columns: int) -> tirx.PrimFunc:
    x = te.placeholder((rows, columns), "float32", "x")
    b = te.placeholder((columns,), "float32", "b")
    bent = te.compute(b.shape, lambda j: te.exp(te.tanh(b[j])), "bent")
    return te.create_prim_func([x, b, te.compute(x.shape, lambda i, j: x[i, j] + bent[j], "out")])


def column_softmax(rows: int, columns: int) -> tirx.PrimFunc:
    x = te.placeholder((rows, columns), "float32", "x")
    k, m = te.reduce_axis((0, rows), "k"), te.reduce_axis((0, rows), "m")
    top = te.compute((columns,), lambda j: te.max(x[k, j], axis=k), "top")
    e = te.compute(x.shape, lambda i, j: te.exp(x[i, j] - top[j]), "e")
    total = te.compute((columns,), lambda j: te.sum(e[m, j], axis=m), "total")
    return te.create_prim_func([x, te.compute(x.shape, lambda i, j: e[i, j] / total[j], "out")])


def multiples(count: int, rows: int, columns: int) -> tirx.PrimFunc:
    x = te.placeholder((rows, columns), "float32", "x")

    def times(number: int) -> te.Tensor:
        by = tirx.const(number + 1, "float32")
        return te.compute(x.shape, lambda i, j: x[i, j] * by, f"out{number}")

    return te.create_prim_func([x, *map(times, range(count))])


def planned(kernel: tirx.PrimFunc, device: CpuDevice = DEVICE) -> Plan:
    plan = plan_prim_func(kernel, device)
    assert not isinstance(plan, str), plan
    return plan


def longest_strip(plan: Plan) -> int:
    return min(c for p in plan.phases for c in (*p.chunks.values(), 1 << 30))


@pytest.mark.parametrize("shape", [(2048, 1024), (999, 4096), (300, 8192)])
def test_a_vector_made_first_does_not_cut_wide_rows(shape):
    plan = planned(vector_then_rows(*shape))
    assert len(plan.phases) == 2
    assert plan.phases[-1].tiles() >= 16
    for node in plan.phases[-1].nodes:
        tile, chunks = plan.phases[-1].tile, plan.phases[-1].chunks
        assert strips.slowdown(node.store, node, tile, chunks, DEVICE) < 1.1


@pytest.mark.parametrize(("shape", "tiles"), [((1000, 64), 4), ((2000, 32), 2), ((300, 200), 4)])
def test_few_long_columns_are_tiles_of_whole_lines(shape, tiles):
    zen4 = replace(DEVICE, profile=default_profile("znver4", 64))
    kernel = column_softmax(*shape)
    plan = planned(kernel, zen4)
    (phase,) = plan.phases
    assert phase.tiles() == tiles
    assert all(chunk % 16 == 0 for chunk in phase.chunks.values())
    x = np.random.default_rng(0).normal(size=shape).astype("f4") * 5
    made = np.empty_like(x)
    run(scheduled(kernel, zen4), x, made)
    power = np.exp(x.astype("f8") - x.max(0))
    want = power / power.sum(0)
    np.testing.assert_allclose(made, want, rtol=1e-5, atol=1e-5 * want.max())


def test_rows_that_fit_the_cache_may_be_cut():
    assert len(planned(vector_then_rows(64, 1024)).phases) == 1


def test_what_would_cross_a_barrier_whole_stays_in_strips():
    plan = planned(column_softmax(1024, 1024))
    assert not plan.workspace or all(t.elements <= 1024 for t in plan.workspace)
    assert longest_strip(plan) < 1024


def test_strips_of_a_large_tensor_are_charged_and_of_a_small_one_are_not():
    def traffic(rows: int) -> float:
        plan = planned(column_softmax(rows, 1024))
        with_strips = latency.estimate(plan, DEVICE).traffic
        huge = replace(DEVICE, l2_bytes=1 << 40)
        return with_strips / latency.estimate(plan, huge).traffic

    assert traffic(4096) > 2.0
    assert traffic(64) == pytest.approx(1.0)


@pytest.mark.parametrize(("count", "nests"), [(1, 1), (2, 1), (3, 2), (12, 6)])
def test_outputs_that_share_no_value_fill_nests_by_twos(count, nests):
    plan = planned(multiples(count, 512, 1024))
    assert sum(len(p.groups) for p in plan.phases) == nests


def test_outputs_made_of_one_another_share_a_nest():
    x = te.placeholder((512, 1024), "float32", "x")
    chain = [te.compute(x.shape, lambda i, j: te.tanh(x[i, j]), "out0")]
    for number in range(1, 5):
        before = chain[-1]
        chain.append(te.compute(x.shape, lambda i, j: te.tanh(before[i, j]), f"out{number}"))  # noqa: B023
    plan = planned(te.create_prim_func([x, *chain]))
    assert sum(len(p.groups) for p in plan.phases) == 1


def test_kernels_of_several_nests_and_phases_are_right():
    rng = np.random.default_rng(0)
    x, b = rng.normal(size=(999, 1300)).astype("float32"), rng.normal(size=1300).astype("float32")
    made = np.empty_like(x)
    run(scheduled(vector_then_rows(*x.shape), DEVICE), x, b, made)
    sc.assert_close({"y": made}, {"y": x + np.exp(np.tanh(b.astype("f8")))}, 1e-5)
    outs = [np.empty_like(x) for _ in range(5)]
    run(scheduled(multiples(5, *x.shape), DEVICE), x, *outs)
    for number, out in enumerate(outs):
        np.testing.assert_array_equal(out, x * np.float32(number + 1))


def test_a_tensor_that_fits_the_cache_is_not_charged_for_strips():
    node = planned(column_softmax(1024, 1024)).phases[0].nodes[0]
    (access,) = node.reads.values()
    (column,) = node.spatial
    roomy = replace(DEVICE, l2_bytes=4 << 20)
    assert strips.slowdown(access, node, (column,), {column: 32}, DEVICE) > 2
    assert strips.slowdown(access, node, (column,), {column: 32}, roomy) == 1


def with_thresholds(**changed: int) -> CpuDevice:
    profile = DEVICE.profile
    return replace(
        DEVICE, profile=replace(profile, thresholds=replace(profile.thresholds, **changed))
    )


def test_the_profile_says_where_the_defaults_turn_over():
    kernel = vector_then_rows(2048, 1024)
    tiles = [
        plan_prim_func(kernel, with_thresholds(**changed)).phases[-1].tiles()
        for changed in ({}, {"cut_regions": 1 << 30, "spread_regions": 1 << 30})
    ]
    assert tiles[0] > tiles[1]
    assert (
        len(
            plan_prim_func(
                kernel, replace(DEVICE, profile=replace(DEVICE.profile, strip_bytes=1.0))
            ).phases
        )
        == 1
    )
    assert len(plan_prim_func(kernel, with_thresholds(crossing_bytes=1)).phases) == 1
    assert plan_prim_func(kernel, DEVICE).parallel
    assert not plan_prim_func(kernel, with_thresholds(spread_regions=1 << 30)).parallel


def test_what_may_cross_a_barrier_is_the_profiles():
    plan = planned(vector_then_rows(2048, 1024))
    assert sum(t.bytes for t in plan.workspace) == 4096
    assert refuse_plan(plan, with_thresholds(crossing_bytes=4096)) is None
    assert "would cross a barrier" in refuse_plan(plan, with_thresholds(crossing_bytes=4095))
