"""The search: it moves in the space by our mutators, proposes nothing twice and nothing illegal."""

from __future__ import annotations

import random

import pytest
from tvm.s_tir import Schedule

from support.tuning.kernels import KERNELS, TARGET, device
from tir_schedules.decisions import knobs, variant, with_knob
from tir_schedules.tuning.candidates import Candidates, Legal
from tir_schedules.tuning.design_space import annotate, design_space
from tir_schedules.tuning.knob_trace import SampledKnob, sampled_knobs
from tir_schedules.tuning.mutators import MoveAlike, MoveKnob, neighbours
from tir_schedules.tuning.policy import SearchPolicy
from tir_schedules.tuning.search import Search

PACE = SearchPolicy(batch=6, population=12, rounds=1)


def candidates(name: str) -> Candidates:
    return Candidates.of(KERNELS[name](), device())


def fewest_tasks(proposed: list) -> list[float]:
    return [1 / decisions.tasks for decisions in proposed]


def search(made: Candidates, seed: int = 5) -> Search:
    return Search(made, TARGET, fewest_tasks, seed, PACE)


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_proposed_is_new_and_legal(name):
    made = candidates(name)
    looking = search(made)
    seen = looking.defaults()
    assert seen[0] == made.default
    for _ in range(3):
        batch = looking.propose()
        assert batch
        for decisions in batch:
            assert not isinstance(made.plan(decisions), str)
            looking.tell(decisions, 1e-3)
        seen += batch
    assert len({*seen}) == len(seen)


def test_a_seed_is_a_search():
    first, second = (search(candidates("softmax")).propose() for _ in range(2))
    assert first == second


def test_the_model_ranks_what_is_proposed():
    made = candidates("softmax")
    proposed = search(made).propose()
    assert sum(decisions.tasks == 1 for decisions in proposed) > len(proposed) / 2


@pytest.mark.parametrize(
    ("name", "mutator"),
    [
        pytest.param("softmax", MoveKnob, id="softmax-knob"),
        pytest.param("softmax", MoveAlike, id="softmax-alike"),
        pytest.param("product", MoveKnob, id="product-knob"),  # of one nest: no knobs are alike
    ],
)
def test_a_mutated_trace_is_of_the_same_variant(name, mutator):
    made = candidates(name)
    (schedule, *_) = design_space(made.func, made.space)
    known = {each.path: each.candidates for each in made.space.variants[0].knobs}
    move, trace, changed = mutator(random.Random(3)), schedule.trace, 0
    for _ in range(20):
        trace = move.apply(trace) or trace
        schedule = Schedule(made.func)
        trace.apply_to_schedule(schedule, remove_postproc=True)
        decisions = made.decisions(schedule)
        changed += decisions != made.default
        assert variant(decisions) == variant(made.default)
        assert all(value in known[path] for path, value in knobs(decisions).items())
    assert changed > 10


@pytest.mark.parametrize(
    ("values", "at", "found"),
    [
        pytest.param((8, 1, 2, 16), 0, [2, 3], id="between"),
        pytest.param((8, 1, 2, 16), 3, [0], id="largest"),
        pytest.param((8, 1, 2, 16), 1, [2], id="smallest"),
        pytest.param((True, False), 0, [], id="no-sizes"),
    ],
)
def test_the_neighbours_of_a_size_are_the_next_in_order(values, at, found):
    assert neighbours(SampledKnob("lanes", values, at, None)) == found


def test_knobs_are_read_off_a_trace():
    made = candidates("softmax")
    (first, *_) = made.space.variants
    decided = with_knob(first.default, "parallel", not first.default.parallel)
    schedule = Schedule(made.func)
    annotate(schedule, first, decided)
    found = {each.path: each.candidates[each.at] for each in sampled_knobs(schedule.trace)}
    assert found["parallel"] == decided.parallel
    assert {*found} == {each.path for each in first.knobs if len(each.candidates) > 1}


def test_what_plan_refuses_is_rejected():
    made = candidates("product")
    (first, *_), found = made.space.variants, set()
    for each in first.knobs:
        for candidate in each.candidates:
            decided = with_knob(first.default, each.path, candidate)
            schedule = Schedule(made.func)
            annotate(schedule, first, decided)
            legal = Legal(made).apply(schedule)
            assert legal == (not isinstance(made.plan(decided), str))
            found.add(legal)
    assert found == {True, False}
