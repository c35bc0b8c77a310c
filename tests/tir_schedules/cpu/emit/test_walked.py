"""Rows that a tile walks: what is made once, what is fetched, what it is said to take, results."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te, tirx

from support.kernels.fetched_lines import DEVICE, lines_fetched, lines_of, planned, weighted
from support.kernels.scheduled import run
from tir_schedules.cpu.cost.latency import estimate
from tir_schedules.cpu.plan.kernel_plan import Phase
from tir_schedules.cpu.template import emit_plan
from tir_schedules.default_plan import plan_prim_func

HEADS, ROWS, SIZE = 6, 160, 32


def phase_of(func: tirx.PrimFunc, device=DEVICE) -> Phase:
    (phase,) = planned(func, device).phases
    return phase


def names(phase: Phase) -> list[str]:
    return [n.stage.out.name for g in phase.once() for n in g.all_nodes()]


def test_keys_are_turned_once_and_scores_of_some_rows_fit_a_share_of_the_cache():
    phase = phase_of(weighted(HEADS, ROWS, SIZE))
    assert phase.serial_tile_axis is phase.tile[-1] and phase.serial_tile_axis.extent == ROWS
    assert phase.tiles() == HEADS
    assert names(phase) == ["turned"]
    at_a_time = phase.chunks[phase.serial_tile_axis]
    assert at_a_time * ROWS * 4 <= DEVICE.l2_bytes // 8
    assert [phase.steps(g) for g in phase.groups] == [1] + [-(-ROWS // at_a_time)] * 2


def test_the_keys_stay_while_the_rows_are_walked():
    plan = planned(weighted(HEADS, ROWS, SIZE))
    at_a_time = plan.phases[0].chunks[plan.phases[0].serial_tile_axis]
    assert plan.tile_bytes == (SIZE * ROWS + at_a_time * ROWS) * 4


@pytest.mark.parametrize(
    "func",
    [
        weighted(HEADS, 96, SIZE),
        weighted(HEADS, ROWS, SIZE, turned=False),
    ],
    ids=["all scores fit", "nothing is made once"],
)
def test_other_tiles_walk_nothing(func):
    phase = phase_of(func, replace(DEVICE, l2_bytes=320 << 10))
    assert phase.serial_tile_axis is None
    assert phase.once() == ()


def least_of_columns(heads: int, rows: int, size: int) -> tirx.PrimFunc:
    """Return the product of weights that are less by the least score of their column."""
    q, k, v = (te.placeholder((heads, rows, size), "float32", name) for name in "qkv")
    d, n, m = (te.reduce_axis((0, e), name) for e, name in ((size, "d"), (rows, "n"), (rows, "m")))
    turned = te.compute((heads, size, rows), lambda h, e, j: k[h, j, e], "turned")
    scores = te.compute(
        (heads, rows, rows), lambda h, i, j: te.sum(q[h, i, d] * turned[h, d, j], d), "scores"
    )
    least = te.compute((heads, rows), lambda h, j: te.min(scores[h, m, j], m), "least")
    power = te.compute(scores.shape, lambda h, i, j: scores[h, i, j] - least[h, j], "power")
    out = te.compute(
        (heads, rows, size), lambda h, i, e: te.sum(power[h, i, n] * v[h, n, e], n), "out"
    )
    return te.create_prim_func([q, k, v, out])


def test_rows_that_something_is_reduced_over_are_not_walked():
    plan = plan_prim_func(least_of_columns(HEADS, ROWS, SIZE), DEVICE)
    assert isinstance(plan, str) or all(p.serial_tile_axis is None for p in plan.phases)


@settings(max_examples=5, deadline=None)
@given(
    st.integers(2, 7),
    st.integers(97, 230),
    st.integers(16, 48),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_results_are_those_of_float64(heads, rows, size, inside, seed):
    func = weighted(heads, rows, size, inside)
    plan = planned(func)
    assert plan.phases[0].serial_tile_axis is not None
    rng = np.random.default_rng(seed)
    shape = (rows, heads, size) if inside else (heads, rows, size)
    q, k, v = (rng.normal(size=shape).astype("f4") * np.float32(0.3) for _ in range(3))
    out = np.empty((heads, rows, size), "f4")
    run(emit_plan(plan, func), q, k, v, out)
    by_head = [x.astype("f8").swapaxes(0, 1) if inside else x.astype("f8") for x in (q, k, v)]
    weights = np.exp(by_head[0] @ by_head[1].swapaxes(1, 2))
    want = weights @ by_head[2]
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


@pytest.mark.long
def test_a_walk_asks_for_the_next_head_a_part_with_each_step():
    func = weighted(8, 448, 64)
    plan = planned(func, replace(DEVICE, l2_bytes=3 << 18))
    phase = plan.phases[0]
    assert phase.serial_tile_axis is not None
    each, fetched = phase.outer_extent(phase.serial_tile_axis), lines_fetched(plan, func)
    for head, name in itertools.product(range(7), "kv"):
        tiles = range(each * head, each * (head + 1))
        asked = [line for tile in tiles for line in fetched[name, tile]]
        wanted = lines_of(range(head + 1, head + 2), range(448), (8, 448, 64), False)
        assert wanted <= set(asked)
        assert len(asked) < 2 * len(wanted)


def test_all_steps_of_a_walk_are_counted():
    """Whole heads and walked ones have the same points; blocks of rows are less even."""
    func = weighted(HEADS, ROWS, SIZE)
    spent = []
    for device in (DEVICE, replace(DEVICE, l2_bytes=4 << 20)):
        plan = planned(func, device)
        spent.append(estimate(plan, device).compute)
    assert spent[0] == pytest.approx(spent[1], rel=0.1)
