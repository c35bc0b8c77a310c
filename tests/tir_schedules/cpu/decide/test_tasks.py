"""How many tasks a loop over tiles has: one a thread, and many where tiles cut sums."""

from __future__ import annotations

import pytest
from tvm import te, topi

from support.decisions.devices import small_device
from tir_schedules.cpu.cost.division import by_reciprocal
from tir_schedules.cpu.cost.limits import tiles_of_thread
from tir_schedules.default_plan import plan_prim_func
from tir_schedules.device.profile import default_profile


def plan(reduce, threads: int):
    x = te.placeholder((4096, 256), "float32", "x")
    return plan_prim_func(te.create_prim_func([x, reduce(x)]), small_device(threads, tiles=64))


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_rows_are_a_task_a_thread(threads):
    assert plan(lambda x: topi.nn.softmax(x, 1), threads).tasks == threads


def test_what_cuts_sums_has_many_tasks():
    found = plan(topi.sum, 2)
    assert any(phase.partial for phase in found.phases)
    assert found.tasks == 64


@pytest.mark.parametrize(
    ("tiles", "tasks", "threads", "most"),
    [(9, 2, 2, 5), (65, 64, 2, 34), (65, 2, 2, 33), (7, 64, 3, 3), (1, 8, 4, 1), (9, 8, 2, 6)],
)
def test_the_tiles_of_the_busiest_thread(tiles, tasks, threads, most):
    """Tasks of whole tiles are shared out in order: 9 tiles in at most 8 tasks are 5 tasks of 2."""
    assert tiles_of_thread(tiles, tasks, threads) == most


@pytest.mark.parametrize(("mcpu", "is_slow"), [("rocketlake", True), ("znver4", False)])
def test_lanes_are_divided_where_that_is_cheap(mcpu, is_slow):
    assert by_reciprocal(default_profile(mcpu, 64)) == is_slow
