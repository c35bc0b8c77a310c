"""A session: kernels in turns, the log after each batch, the luckiest is not the best."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from support.tuning.kernels import TARGET, device, product, softmax
from tir_schedules.decisions import to_json
from tir_schedules.tuning.candidates import Candidates
from tvm_stitch.tuning import session as session_module
from tvm_stitch.tuning.kernel_tuner import DONE, NEW
from tvm_stitch.tuning.log import Log
from tvm_stitch.tuning.log.fingerprint import device_key
from tvm_stitch.tuning.measure.outcome import PACE, Outcome, Pace
from tvm_stitch.tuning.measure.subject import KernelSubject
from tvm_stitch.tuning.model.gains import GainModel
from tvm_stitch.tuning.policy import POLICY
from tvm_stitch.tuning.records import trial, workload_record
from tvm_stitch.tuning.session import Budget, Session
from tvm_stitch.tuning.tasks import Task

DEFAULT_NS = 1000.0
BAD, FAST = 2, 8  # tasks


def by_tasks(decisions: Any) -> float:
    return 500.0 if decisions.tasks == FAST else DEFAULT_NS


class FakeCrew:
    """Says what a function of decisions says; those of `BAD` tasks fail."""

    pace, usual_ns = PACE, 8000.0

    def __init__(self, ns: Callable[[Any], float] = by_tasks, jitter: float = 0.0) -> None:
        self._ns, self._jitter, self._rng = ns, jitter, random.Random(0)
        self.batches: list[tuple[str, list[Any], Pace | None]] = []
        self.ends_with, self.renewed = None, 0

    def renew(self) -> None:
        self.renewed += 1

    def take(self, subject: KernelSubject, seed: int) -> None:
        candidates = subject.candidates
        self._key, self._default = candidates.workload.key, candidates.default

    def measure(self, decisions: list[Any], pace: Pace | None = None) -> list[Outcome]:
        if self.ends_with == len(self.batches):
            raise KeyboardInterrupt
        self.batches.append((self._key, decisions, pace))
        return [self._outcome(each, pace) for each in decisions]

    def _outcome(self, decisions: Any, pace: Pace | None) -> Outcome:
        if decisions.tasks == BAD:
            return Outcome(decisions, error="it hangs")
        runs = pace.rounds if pace else 5
        if decisions == self._default:
            return Outcome(decisions, DEFAULT_NS, DEFAULT_NS, 0.01, runs)
        luck = 1.0 if pace else 1.0 - self._jitter * self._rng.random()
        return Outcome(decisions, self._ns(decisions) * luck, DEFAULT_NS, 0.01, runs)


SOFTMAX = Candidates.of(softmax(), device())


@pytest.fixture
def log(tmp_path):
    with Log.open(tmp_path / "tuning.db", create=True) as made:
        yield made


def session(log: Log, crew: FakeCrew, *tasks: Task, seed: int = 3) -> Session:
    tasks = tasks or (Task(SOFTMAX, "softmax", 1),)
    return Session(tasks, log, crew, TARGET, device(), GainModel(), seed, lambda _session: None)


def test_what_is_faster_is_found_and_logged(log):
    crew = FakeCrew()
    running = session(log, crew)
    running.run(Budget(trials=80))
    (tuner,) = running.tuners
    assert tuner.best.tasks == FAST and tuner.gain == 1.0
    best = log.best(SOFTMAX.workload.key, device_key(device()).key)
    assert best.decisions == to_json(tuner.best)
    searched = [batch for _, batch, pace in crew.batches if pace is None]
    first, *others = [batch for _, batch, pace in crew.batches if pace is not None]
    assert all({*batch} <= {*first} for batch in others)  # what is confirmed is one trial
    assert log.counts()["trials"] == running.trials == sum(map(len, [*searched, first]))
    errors = [each.error for each in log.trials() if each.ns is None]
    assert {*errors} == {"it hangs"}


def test_a_kernel_ends_when_nothing_is_left_to_find(log):
    running = session(log, FakeCrew(lambda _decisions: DEFAULT_NS))
    running.run(Budget(trials=10_000))
    (tuner,) = running.tuners
    assert running.trials < 300
    assert tuner.best == SOFTMAX.default or tuner.gain == 0.0


def test_the_luckiest_does_not_win(log):
    running = session(log, FakeCrew(lambda _decisions: 1.1 * DEFAULT_NS, jitter=0.3))
    running.run(Budget(trials=60))
    (tuner,) = running.tuners
    assert tuner.best == SOFTMAX.default and tuner.gain == 0.0
    best = log.best(SOFTMAX.workload.key, device_key(device()).key)
    assert best.decisions == to_json(SOFTMAX.default)


class MovingCrew(FakeCrew):
    """One whose times depend on where code lies: of `shift` in the last library, by tasks."""

    def __init__(self, shift: Callable[[Any], float]) -> None:
        super().__init__()
        self._shift = shift

    def _outcome(self, decisions: Any, pace: Pace | None) -> Outcome:
        found = super()._outcome(decisions, pace)
        again = pace is not None and self.batches[-2][2] is not None
        if not again or found.ns is None:
            return found
        return replace(found, ns=found.ns * self._shift(decisions))


@pytest.mark.long(every=2)
@pytest.mark.parametrize(
    "shift",
    [
        pytest.param(lambda d: 2.0 if d.tasks == FAST else 1.0, id="slow-elsewhere"),
        pytest.param(lambda d: 2.5 if d == SOFTMAX.default else 1.0, id="default-unlike-itself"),
    ],
)
def test_what_another_library_does_not_show_is_no_gain(log, shift):
    running = session(log, MovingCrew(shift))
    running.run(Budget(trials=80))
    (tuner,) = running.tuners
    assert tuner.best == SOFTMAX.default and tuner.gain == 0.0


class ApartCrew(FakeCrew):
    """One whose threads take as long to meet as is told, from its fourth batch on another time."""

    moves_at = 3

    def __init__(self, *usual_ns: float) -> None:
        super().__init__(lambda d: self._ns_apart(d) if self.usual_ns > 8000.0 else by_tasks(d))
        self.usual_ns, self._then_ns = usual_ns

    def _ns_apart(self, decisions: Any) -> float:
        return DEFAULT_NS if decisions.tasks == FAST else 400.0

    def measure(self, decisions: list[Any], pace: Pace | None = None) -> list[Outcome]:
        if len(self.batches) == self.moves_at:
            self.usual_ns = self._then_ns
        return super().measure(decisions, pace)


def test_what_was_timed_while_threads_were_apart_is_forgotten(log):
    crew = ApartCrew(20_000.0, 8000.0)
    running = session(log, crew)
    running.run(Budget(trials=10_000))
    (tuner,) = running.tuners
    assert tuner.best.tasks == FAST
    assert 400.0 not in {each.ns for each in log.trials()}
    searched = [batch for _, batch, pace in crew.batches[4:] if pace is None]
    first, *_ = [batch for _, batch, pace in crew.batches[4:] if pace is not None]
    assert log.counts()["trials"] == running.trials == sum(map(len, [*searched, first]))


def test_what_was_timed_before_threads_went_apart_is_of_another_machine(log):
    crew = ApartCrew(8000.0, 20_000.0)
    running = session(log, crew)
    (before,) = running.tuners
    running.run(Budget(trials=10_000))
    (tuner,) = running.tuners
    assert tuner is not before and tuner.best.tasks != FAST
    assert log.counts()["trials"] > sum(
        len(batch) for _, batch, pace in crew.batches[4:] if pace is None
    )


def test_what_was_confirmed_before_threads_went_apart_stays(log):
    crew = ApartCrew(8000.0, 20_000.0)
    crew.moves_at = 1000
    other = Task(Candidates.of(product(), device()), "product", 1)
    running = session(log, crew, Task(SOFTMAX, "softmax", 90), other)
    first, _ = running.tuners
    hear = first.hear

    def heard(outcomes):
        hear(outcomes)
        if first.stage == DONE:
            crew.moves_at = len(crew.batches)

    first.hear = heard
    running.run(Budget(trials=10_000))
    assert running.tuners[0] is first and first.best.tasks == FAST
    assert crew.usual_ns == 20_000.0


def test_threads_that_are_a_little_nearer_change_nothing(log):
    crew = ApartCrew(9000.0, 8000.0)
    running = session(log, crew)
    running.run(Budget(trials=50))
    assert log.counts()["trials"] == running.trials


class TimedCrew(FakeCrew):
    """Each of its batches takes so many `seconds` of a clock that nothing else moves."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds, self.now = seconds, 0.0

    def measure(self, decisions: list[Any], pace: Pace | None = None) -> list[Outcome]:
        self.now += self._seconds
        return super().measure(decisions, pace)


def test_a_budget_too_short_for_all_kernels_goes_to_the_largest(log, monkeypatch):
    crew = TimedCrew(0.1)
    monkeypatch.setattr(session_module.time, "monotonic", lambda: crew.now)
    other = Candidates.of(product(), device())
    running = session(log, crew, Task(SOFTMAX, "softmax", 1), Task(other, "product", 90))
    running.run(Budget(seconds=1.3 * POLICY.session.confirm_s))
    small, large = running.tuners
    assert large.stage == DONE and small.stage == NEW
    assert {key for key, _, _ in crew.batches} == {other.workload.key}
    assert crew.batches[-1][2] is not None  # confirmed
    assert crew.now <= 1.3 * POLICY.session.confirm_s


@pytest.mark.parametrize("seconds", [90.0, 96.0, 130.0])
def test_time_is_kept_for_confirmations_as_long_as_they_take(log, monkeypatch, seconds):
    crew = TimedCrew(4.0 * POLICY.session.confirm_s)
    monkeypatch.setattr(session_module.time, "monotonic", lambda: crew.now)
    tasks = [Task(Candidates.of(softmax(31 + n, 129), device()), str(n), 8**-n) for n in range(3)]
    running = session(log, crew, *tasks)
    running.run(Budget(seconds=seconds))
    assert {tuner.stage for tuner in running.tuners if tuner.stage != NEW} == {DONE}


def confirmations(crew: FakeCrew, candidates: Candidates) -> list[list[Any]]:
    key = candidates.workload.key
    return [batch for at, batch, pace in crew.batches if at == key and pace is not None]


def test_what_is_most_of_the_model_is_confirmed_in_more_libraries_and_processes(log):
    crew, policy = FakeCrew(), POLICY.session.confirming
    other = Candidates.of(softmax(31, 127), device())
    running = session(log, crew, Task(SOFTMAX, "softmax", 15), Task(other, "other", 1))
    running.run(Budget())
    assert min(tuner.timed for tuner in running.tuners) >= policy.timed
    assert len(confirmations(crew, SOFTMAX)) == policy.readings and crew.renewed == 1
    assert 2 <= len(confirmations(crew, other)) <= 3
    assert len(running.tuners[1].finalists()) > len(confirmations(crew, other)[0])
    assert len(confirmations(crew, other)[0]) == 1 + policy.few


class LongCrew(FakeCrew):
    """Its kernels take a hundred times as long."""

    def _outcome(self, decisions: Any, pace: Pace | None) -> Outcome:
        found = super()._outcome(decisions, pace)
        if found.ns is None:
            return found
        return replace(found, ns=found.ns * 100.0, default_ns=found.default_ns * 100.0)


def test_what_takes_long_is_confirmed_in_the_same_processes(log):
    crew, policy = LongCrew(), POLICY.session.confirming
    assert policy.brief_ns < 100.0 * DEFAULT_NS
    session(log, crew).run(Budget(80))
    assert len(confirmations(crew, SOFTMAX)) == policy.readings and not crew.renewed


def test_what_was_hardly_searched_is_confirmed_twice(log):
    crew = FakeCrew()
    session(log, crew).run(Budget(POLICY.session.confirming.timed - 12))
    assert len(confirmations(crew, SOFTMAX)) == 2 and not crew.renewed


@pytest.mark.long
def test_a_second_session_goes_on(log):
    first, second = FakeCrew(), FakeCrew()
    session(log, first).run(Budget(trials=40))
    running = session(log, second, seed=4)
    running.run(Budget(trials=40))
    searched = {d for _, batch, pace in first.batches for d in batch if d.tasks != BAD}
    again = {d for _, batch, pace in second.batches if pace is None for d in batch}
    assert not searched & again
    assert running.tuners[0].best.tasks == FAST


def test_ctrl_c_keeps_what_was_measured(log):
    crew = FakeCrew()
    crew.ends_with = 2
    running = session(log, crew)
    running.run(Budget(trials=80))
    assert running.interrupted
    assert log.counts()["trials"] == running.trials == sum(len(b) for _, b, _ in crew.batches) > 0


def test_decisions_of_a_kernel_of_other_sizes_are_tried_first(log):
    other = Candidates.of(softmax(35, 140), device())
    key = device_key(device())
    near = next(d for d in other.neighbours(other.default) if d.tasks == FAST)
    assert SOFTMAX.space_of(near) is not None
    made = trial(other, key, Outcome(near, 400.0, 1000.0, 0.01, 15), None)
    log.append([workload_record(other)], [key], [made])
    crew = FakeCrew()
    session(log, crew).run(Budget(trials=1))
    _, batch, _ = crew.batches[0]
    assert near in batch


def test_decisions_that_a_log_has_and_no_space_are_left_alone(log):
    key = device_key(device())
    strange = to_json(SOFTMAX.default).replace('"tasks":1', '"tasks":34567')
    made = trial(SOFTMAX, key, Outcome(SOFTMAX.default, 400.0, 1000.0, 0.01, 15), None)
    fields = {name: getattr(made, name) for name in made.__dataclass_fields__}
    assert strange != made.decisions
    texts = (strange, '{"phases":1}')
    others = [
        type(made)(**{**fields, "uid": f"{n:032x}", "decisions": text})
        for n, text in enumerate(texts)
    ]
    log.append([workload_record(SOFTMAX)], [key], others)
    crew = FakeCrew()
    session(log, crew).run(Budget(trials=1))
    assert all(SOFTMAX.space_of(d) is not None for _, batch, _ in crew.batches for d in batch)


def test_trials_go_where_the_models_time_is(log):
    often = Task(SOFTMAX, "softmax", 100)
    seldom = Task(Candidates.of(product(), device()), "product", 1)
    crew = FakeCrew()
    session(log, crew, often, seldom).run(Budget(trials=120))
    counts = {each.candidates.workload.key: 0 for each in (often, seldom)}
    for key, batch, _ in crew.batches:
        counts[key] += len(batch)
    of_often, of_seldom = counts.values()
    assert of_often > 3 * of_seldom > 0
