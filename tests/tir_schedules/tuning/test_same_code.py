"""Decisions that make the same code make equal plans, so that one of them is tried."""

from __future__ import annotations

import pytest

from support.tuning.kernels import device, product, softmax
from tir_schedules.decisions import knobs, with_knob
from tir_schedules.tuning.candidates import Candidates

ROWS = 9  # of 17, so that tiles have 9 and 8


@pytest.fixture(scope="module")
def made() -> Candidates:
    return Candidates.of(product(17, 23, 19), device())


@pytest.fixture(scope="module")
def cut(made):
    """Decisions of tiles of some rows."""
    ((row, _),) = made.default.phases[0].tile
    found = with_knob(made.default, "phases.0.tile", ((row, ROWS),))
    assert not isinstance(made.plan(found), str)
    return found


def with_rows(decisions, rows):
    return with_knob(decisions, "phases.0.nests.0.rows", rows)


def test_a_register_tile_has_no_more_rows_than_a_tile(made, cut):
    most, more, fewer = (made.plan(with_rows(cut, n)) for n in (ROWS, 14, 8))
    assert most == more != fewer
    assert made.same(with_rows(cut, 14)) == made.same(with_rows(cut, ROWS))
    assert made.same(with_rows(cut, 8)) == with_rows(cut, 8)


def test_each_task_has_a_tile(made, cut):
    parallel = with_knob(cut, "parallel", True)
    two, many, one = (made.plan(with_knob(parallel, "tasks", n)) for n in (2, 64, 1))
    assert two == many != one


def test_on_one_thread_a_task_of_each_tile_is_one_of_all(made, cut):
    alone = with_knob(cut, "parallel", False)
    one, each = (made.plan(with_knob(alone, "tasks", n)) for n in (1, 64))
    assert one == each


def test_on_one_thread_some_tiles_in_a_task_are_two_loops():
    made = Candidates.of(softmax(), device())
    alone = with_knob(made.default, "parallel", False)
    one, some, each = (made.plan(with_knob(alone, "tasks", n)) for n in (1, 8, 64))
    assert one == each != some


def test_an_axis_in_one_piece_numbers_no_tiles(made, cut):
    ((row, _),) = knobs(cut)["phases.0.tile"]
    whole = made.plan(with_knob(cut, "phases.0.tile", ((row, 17),)))
    assert whole.phases[0].tile == () and whole.phases[0].chunks == {}
    assert whole != made.plan(cut)
