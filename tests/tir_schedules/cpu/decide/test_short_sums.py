"""Register tiles of short sums: fewer rows where results leave the cache."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tvm import te, tirx, topi

from support.kernels import stitch_case
from tir_schedules.default_plan import plan_prim_func

DEVICE = replace(stitch_case.device(2), vector_bytes=64, l2_bytes=1 << 20)


def product(rows: int, columns: int, depth: int, relu: bool, stored: bool = True) -> tirx.PrimFunc:
    x = te.placeholder((rows, depth), "float32", "x")
    weight = te.placeholder((depth, columns), "float32", "weight")
    made = topi.matmul(x, weight)
    made = topi.nn.relu(made) if relu else made
    return te.create_prim_func([x, weight, made if stored else topi.sum(topi.exp(made), axis=1)])


def rows_of_tile(func: tirx.PrimFunc) -> int:
    plan = plan_prim_func(func, DEVICE)
    (tile,) = (g for phase in plan.phases for g in phase.groups if g.is_product)
    return tile.rows


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(
    ("rows", "columns", "depth", "most"),
    [
        pytest.param(1024, 1024, 8, 6, id="short"),
        pytest.param(1024, 1024, 64, 6, id="longest"),
        pytest.param(1024, 1024, 65, 14, id="long"),
        pytest.param(1024, 200, 8, 14, id="in-cache"),
    ],
)
def test_short_sums_of_what_leaves_the_cache_have_few_rows(rows, columns, depth, most, relu):
    found = rows_of_tile(product(rows, columns, depth, relu))
    assert (found <= 6) == (most == 6)


def test_what_stays_in_a_tile_has_as_many_rows_as_registers_hold():
    assert rows_of_tile(product(1024, 1024, 8, relu=False, stored=False)) > 6
