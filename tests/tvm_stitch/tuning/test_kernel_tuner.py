"""What one kernel's tuner proposes, by models that say what they are asked to."""

from __future__ import annotations

import math

import pytest

from support.tuning.kernels import KERNELS, TARGET, device, product
from tir_schedules.decisions import knobs, with_knob
from tir_schedules.tuning.candidates import Candidates
from tvm_stitch.tuning.kernel_tuner import KernelTuner
from tvm_stitch.tuning.measure.outcome import Outcome
from tvm_stitch.tuning.model.gains import GainModel
from tvm_stitch.tuning.policy import POLICY
from tvm_stitch.tuning.tasks import Task

WANTED = {"tasks": 8, "phases.0.nests.0.lanes": 16, "phases.0.nests.2.lanes": 16}


@pytest.fixture
def tuner(monkeypatch):
    """A tuner of softmax whose model likes each of some choices."""
    made = Candidates.of(KERNELS["softmax"](), device())
    liked = {path: value for path, value in WANTED.items() if knobs(made.default)[path] != value}
    assert len(liked) > 1
    tuner = KernelTuner(Task(made, "softmax", 1), TARGET, GainModel(), 1, 16)

    def scores(found):
        has = [knobs(each) for each in found]
        return [sum(h.get(path) == value for path, value in liked.items()) for h in has]

    monkeypatch.setattr(tuner, "_scores", scores)
    tuner.most = len(liked)
    return tuner


def test_a_warm_model_is_followed_for_several_knobs_at_once(tuner):
    tuner._model = GainModel(booster=object())
    first = tuner.next()
    assert max(tuner._scores(first)) == tuner.most
    assert len(first) <= len(tuner._search.defaults()) + POLICY.kernel.first + 2


def test_without_a_model_the_defaults_come_first_and_what_is_near_them(tuner):
    made, first = tuner.task.candidates, tuner.next()
    defaults = [made.decisions(each) for each in made.schedules]
    assert first[: len(defaults)] == defaults and defaults[0] == made.default
    have, near = knobs(made.default), first[len(defaults) :]
    moved = [sum(knobs(each)[path] != have[path] for path in have) for each in near]
    assert POLICY.kernel.first >= len(moved) > POLICY.kernel.first // 2
    assert min(moved) >= 1 and 1 < max(moved) <= POLICY.kernel.moved


def test_a_batch_has_values_together_that_were_not_tried_so(tuner, monkeypatch):
    heard(tuner, tuner.next(), {})
    offered = []
    newest = tuner._pairs.newest

    def kept(near, count):
        offered.append((near, newest(near, count)))
        return offered[-1][1]

    monkeypatch.setattr(tuner._pairs, "newest", kept)
    batch = tuner.next()
    ((near, chosen),) = offered
    assert len(chosen) == POLICY.kernel.paired and {*chosen} <= {*batch}
    assert not {*near} & tuner._gains.keys()
    heard(tuner, batch, {})
    assert newest(chosen, 1) == []


def test_what_is_predicted_far_behind_is_not_paired(tuner, monkeypatch):
    heard(tuner, tuner.next(), {})
    monkeypatch.setattr(tuner, "_scores", lambda found: [2.0, *[1.0] * (len(found) - 1)])
    assert tuner._paired() == []


def test_what_is_predicted_far_behind_is_not_descended_to(tuner, monkeypatch):
    best = tuner.best
    near = tuner._untried(tuner._candidates.neighbours(best), mark=False)
    (*_, last) = near
    assert len(near) > tuner._batch

    def scores(found):
        return [1.0 if each in (best, last) else 0.7 for each in found]

    monkeypatch.setattr(tuner, "_scores", scores)
    tuner.stage = "descent"
    assert tuner._downhill() == [last]


def test_of_decisions_that_make_the_same_code_one_is_tried():
    made = Candidates.of(product(17, 23, 19), device())
    tuner = KernelTuner(Task(made, "product", 1), TARGET, GainModel(), 1, 16)
    ((row, _),) = made.default.phases[0].tile
    cut = with_knob(made.default, "phases.0.tile", ((row, 8),))
    alike = [with_knob(cut, "phases.0.nests.0.rows", rows) for rows in (8, 12, 14)]
    other = with_knob(cut, "phases.0.nests.0.rows", 4)
    assert tuner._untried([*alike, other]) == [alike[0], other]
    assert tuner._untried([alike[2], other]) == []
    again = KernelTuner(Task(made, "product", 1), TARGET, GainModel(), 1, 16)
    again.recall([(alike[1], 900.0, 1000.0)])
    assert again._untried([*alike, other]) == [other]


def heard(tuner, batch, took):
    tuner.hear([Outcome(each, took.get(each, 1000.0), 1000.0) for each in batch])


def test_the_best_are_timed_with_each_batch_anew(tuner):
    heard(tuner, tuner.next(), {})
    lucky, good, *others = tuner.next()
    heard(tuner, [lucky, good, *others], {lucky: 500.0, good: 600.0})
    assert tuner.best == lucky
    batch = tuner.next()
    assert batch[-2:] == [lucky, good]
    heard(tuner, batch, {good: 600.0})
    assert tuner.best == good
    assert tuner.gain == pytest.approx(-math.log2(0.6))


def test_what_falls_behind_is_no_progress(tuner):
    heard(tuner, tuner.next(), {})
    lucky, *others = tuner.next()
    heard(tuner, [lucky, *others], {lucky: 500.0})
    assert tuner._stale == 0
    batch = tuner.next()
    heard(tuner, batch, {})
    assert lucky in batch and tuner._stale == 1


def test_of_two_that_are_confirmed_all_libraries_decide(tuner):
    heard(tuner, tuner.next(), {})
    good, fair, *others = tuner.next()
    took = {good: 500.0, fair: 600.0}
    heard(tuner, [good, fair, *others], took)
    heard(tuner, tuner.next(), took)
    heard(tuner, tuner.next(), took)
    default = tuner._candidates.default
    unlucky = [Outcome(default, 1000.0, 1000.0), Outcome(good, 700.0, 1000.0)]
    pooled = tuner.pooled(
        [*unlucky, Outcome(fair, 610.0, 1000.0), Outcome(others[0], 800.0, 1000.0)]
    )
    assert [each.ns for each in pooled] == pytest.approx([1000.0, 500.0, 600.0, 800.0])


def test_what_the_confirmation_shows_no_gain_of_has_none(tuner):
    heard(tuner, tuner.next(), {})
    good, *others = tuner.next()
    for batch in ([good, *others], [good], [good]):
        heard(tuner, batch, {good: 500.0})
    shown = [Outcome(tuner._candidates.default, 1000.0, 1000.0), Outcome(good, 1005.0, 1000.0)]
    assert tuner.pooled(shown) == shown
