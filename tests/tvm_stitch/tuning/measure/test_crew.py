"""The crew: candidates are built, checked and timed; a bad one fails alone."""

from __future__ import annotations

import os
import random
from dataclasses import asdict, replace

import numpy as np
import pytest
import tvm

from support import ROOT
from support.tuning import bad_worker
from support.tuning.kernels import KERNELS, TARGET, device
from tir_schedules.decisions import with_knob
from tir_schedules.tuning.candidates import Candidates
from tvm_stitch.tuning.measure.builders import BUILDERS
from tvm_stitch.tuning.measure.crew import Crew
from tvm_stitch.tuning.measure.machine import LocalMachine
from tvm_stitch.tuning.measure.outcome import Pace, Patience, outcome_of
from tvm_stitch.tuning.measure.subject import KernelSubject
from tvm_stitch.tuning.measure.worker import Bench

PACE = Pace(rounds=2, slice_ns=20_000)
PATIENCE = Patience(start=300, build=3, run=5)


def candidates(name: str = "softmax") -> Candidates:
    return Candidates.of(KERNELS[name](), device())


def some(made: Candidates, count: int, seed: int = 0) -> list:
    rng, found = random.Random(seed), []
    while len(found) < count:
        decisions = made.space.sample(rng)
        if decisions not in found and not isinstance(made.plan(decisions), str):
            found.append(decisions)
    return found


@pytest.fixture(scope="module")
def crew():
    with Crew(TARGET, 2, 2, PACE) as each:
        yield each


@pytest.mark.long(every=3)
@pytest.mark.parametrize("name", KERNELS)
def test_every_candidate_has_its_time_beside_the_defaults(crew, name):
    made = candidates(name)
    wanted = some(made, 5)
    crew.take(KernelSubject(made), seed=1)
    outcomes = crew.measure(wanted)
    assert [outcome.decisions for outcome in outcomes] == wanted
    assert [outcome.error for outcome in outcomes] == [None] * 5
    for outcome in outcomes:
        assert outcome.ns > 0 and outcome.default_ns > 0
        assert 1 <= outcome.runs <= PACE.rounds
        assert outcome.gain == pytest.approx(outcome.default_ns / outcome.ns)


def test_what_has_no_plan_fails_with_its_reason(crew):
    made = candidates("product")
    (first, *_) = made.space.variants
    every = (with_knob(first.default, k.path, c) for k in first.knobs for c in k.candidates)
    bad = next(decisions for decisions in every if isinstance(made.plan(decisions), str))
    crew.take(KernelSubject(made), seed=1)
    good, refused = crew.measure([made.default, bad])
    assert good.error is None and refused.error == made.plan(bad)


@pytest.fixture
def bad_crew(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}/tests/lib:{ROOT}/scripts")
    machine = LocalMachine(bad_worker.__name__)
    with Crew(TARGET, 2, 1, PACE, PATIENCE, machine) as crew:
        yield crew
    assert not machine.workdir.exists()


@pytest.mark.long
def test_bad_candidates_fail_alone(bad_crew):
    errors = {
        bad_worker.CRASHES: "its build ends the process",
        bad_worker.HANGS: "its build ends the process",
        bad_worker.CRASHES_LATER: "its run ends the process",
        bad_worker.IS_WRONG: "result 0 at",
    }
    made = candidates()
    bad = [replace(made.default, tasks=tasks) for tasks in errors]
    good = some(made, 3)
    bad_crew.take(KernelSubject(made), seed=1)
    outcomes = {each.decisions: each.error for each in bad_crew.measure([*bad, *good])}
    assert [outcomes[each] for each in good] == [None] * 3
    for each in bad:
        assert errors[each.tasks] in outcomes[each]


def test_a_crash_while_timed_fails_the_batch_and_the_next_one_runs(bad_crew):
    made = candidates()
    bad_crew.take(KernelSubject(made), seed=1)
    crashed = bad_crew.measure([replace(made.default, tasks=bad_worker.CRASHES_TIMED)])
    fine = bad_crew.measure(some(made, 2))
    assert "its run ends the process" in crashed[0].error
    assert [outcome.error for outcome in fine] == [None, None]
    (child,) = bad_crew.children
    bad_crew.close()
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


@pytest.mark.parametrize(
    ("rounds", "default", "ns", "noise"),
    [
        pytest.param([20.0, 20.0], [10.0, 10.0], 20.0, 0.0, id="even"),
        pytest.param([40.0, 20.0, 20.0], [20.0, 10.0, 10.0], 20.0, 0.0, id="a-busy-round"),
        pytest.param([30.0], [10.0, 11.0, 12.0], 33.0, None, id="slow-after-one-round"),
    ],
)
def test_a_time_is_the_median_ratio_to_the_defaults(rounds, default, ns, noise):
    outcome = outcome_of("decisions", rounds, default)
    assert outcome.ns == pytest.approx(ns)
    assert outcome.noise == (None if noise is None else pytest.approx(noise))


def test_what_is_slow_in_a_round_is_not_timed_again(monkeypatch):
    bench, calls = Bench(), []
    times = {0: 10.0, 1: 14.0, 2: 16.0}
    monkeypatch.setattr(bench, "_slice", lambda number, _ns: calls.append(number) or times[number])
    message = {"rounds": [[1, 2, 0], [0, 2, 1]], "pace": asdict(Pace(slow=1.5)), "usual_ns": None}
    told = bench.time(message)
    assert told["ns"] == {0: [10.0, 10.0], 1: [14.0, 14.0], 2: [16.0]}
    assert calls == [1, 2, 0, 0, 1]


@pytest.mark.long(every=2)
@pytest.mark.parametrize(
    ("nbytes", "streams"), [(1, False), (500, False), (501, True), (9000, True)]
)
def test_what_leaves_the_caches_goes_through_buffers_that_fill_them_four_times(nbytes, streams):
    sets = Pace().sets(nbytes, cache_bytes=1000)
    assert (sets - 1) * nbytes >= 4000 if streams else sets == 1


@pytest.mark.parametrize(
    ("weight_bytes", "sets"), [(0, 1), (16_640, 1), (16_641, 2), (166_400, 10), (10**9, 64)]
)
def test_a_model_reads_its_other_weights_between_two_calls(weight_bytes, sets):
    """Of the product 31 x 65 x 64 the second operand is the weight, of 16640 bytes."""
    subject = KernelSubject(candidates("product"), [1], weight_bytes)
    assert subject.copies(Pace()) == (sets, [1])


def test_of_a_model_without_weights_there_are_no_copies():
    assert KernelSubject(candidates("product"), [], 10**9).copies(Pace()) == (1, [])


class Told:
    """A builder of no candidates, whose kernel takes three arrays."""

    home = tvm.cpu()

    def __init__(self, _message: dict) -> None: ...

    def arrays(self, _seed: int) -> list[np.ndarray]:
        return [np.full(1, n, "float32") for n in range(3)]


@pytest.mark.parametrize(
    ("copied", "counts"), [([1], (1, 3, 1)), (None, (3, 3, 3)), ([], (1, 1, 1))]
)
def test_each_call_takes_the_next_copy_one_slice_after_the_other(monkeypatch, copied, counts):
    """Else a slice began with what the last one left in the cache."""
    monkeypatch.setitem(BUILDERS, "told", Told)
    bench, seen = Bench(), []
    message = {"kind": "told", "seed": 1, "threads": 1, "sets": 3, "copied": copied}
    bench.load(message)
    bench._calls[0] = lambda *tensors: seen.append([id(t) for t in tensors])
    for _ in range(4):
        bench._slice(0, Pace(warm_ns=0, clock_ns=0, slice_ns=1))
    columns = [*zip(*seen, strict=True)]
    assert tuple(len({*column}) for column in columns) == counts
    for column in columns:
        assert all(one == other for one, other in zip(column, column[3:], strict=False))
        assert len({*column[:3]}) == len({*column})


def test_a_renewed_crew_measures_in_new_processes():
    made = candidates()
    with Crew(TARGET, 2, 2, PACE) as crew:
        crew.take(KernelSubject(made), seed=1)
        before = [*crew.children]
        crew.renew()
        assert not any(child.alive for child in before)
        (outcome,) = crew.measure([made.default])
        assert outcome.error is None
        assert not {*map(id, crew.children)} & {*map(id, before)}
