"""Which results are stored past the caches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tvm import te, tirx, topi

from support.kernels import stitch_case as sc
from tir_schedules.default_plan import plan_prim_func
from tir_schedules.tuning.candidates import Candidates

MIB = 1 << 20


def streamed(kernel: tirx.PrimFunc, l3_bytes: int) -> list[str]:
    plan = plan_prim_func(kernel, replace(sc.device(2), l3_bytes=l3_bytes))
    assert not isinstance(plan, str), plan
    return [t.name for t in plan.streamed]


def softmax(rows: int, columns: int) -> tirx.PrimFunc:
    x = te.placeholder((rows, columns), "float32", "x")
    return te.create_prim_func([x, topi.nn.softmax(x)])


def added(inputs: int, elements: int) -> tirx.PrimFunc:
    xs = [te.placeholder((elements,), "float32", f"x{n}") for n in range(inputs)]
    return te.create_prim_func([*xs, te.compute((elements,), lambda i: sum(x[i] for x in xs), "y")])


def product(rows: int, depth: int, columns: int) -> tirx.PrimFunc:
    x = te.placeholder((rows, depth), "float32", "x")
    w = te.placeholder((depth, columns), "float32", "w")
    k = te.reduce_axis((0, depth), "k")
    y = te.compute((rows, columns), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), "y")
    return te.create_prim_func([x, w, y])


@pytest.mark.parametrize(
    ("columns", "expected"), [(400, True), (1024, True), (392, False), (401, False)]
)
def test_rows_are_streamed_if_each_begins_a_line(columns, expected):
    assert bool(streamed(softmax(4096, columns), MIB)) is expected


def test_rows_behind_each_other_are_one():
    assert streamed(added(1, 401 * 4096), MIB) == ["y"]


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        pytest.param(added(2, 8 * MIB // 10), True, id="pushed out"),
        pytest.param(added(1, 8 * MIB // 10), False, id="all of it fits"),
        pytest.param(added(3, 8 * MIB // 14), False, id="small beside what is read"),
        pytest.param(product(1024, 128, 1536), True, id="few steps"),
        pytest.param(product(1024, 512, 1024), False, id="many steps"),
        pytest.param(product(2048, 512, 1024), True, id="many steps, larger than the cache"),
    ],
)
def test_of_a_third_of_the_cache_what_will_not_stay_is_streamed(kernel, expected):
    assert bool(streamed(kernel, 8 * MIB)) is expected


@pytest.mark.parametrize(("l3_mib", "offered"), [(10, True), (16, False)])
def test_it_may_be_tried_of_what_caches_do_not_keep(l3_mib, offered):
    made = Candidates.of(added(1, MIB), replace(sc.device(2), l3_bytes=l3_mib * MIB))
    assert made.default.streamed == ()
    (knob,) = {
        knob for space in made.space.variants for knob in space.knobs if knob.path == "streamed"
    }
    assert ((0,) in knob.candidates) is offered
