"""A model by its log is timed beside its default, and goes by what of the log is faster."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

import numpy as np
import onnx
import pytest
import tvm
import zoo
from tvm.ir import IRModule

import tvm_stitch
from support.tuning.kernels import device
from tir_schedules.decision_source import using
from tvm_stitch.build import Request, lower
from tvm_stitch.tuning.forms.choices import key_of as form_key
from tvm_stitch.tuning.log import Log, PlanChoice
from tvm_stitch.tuning.log.fingerprint import device_key
from tvm_stitch.tuning.measure.builders import TunedBuilder
from tvm_stitch.tuning.measure.outcome import PACE, Outcome
from tvm_stitch.tuning.records import features_of, trial, workload_record
from tvm_stitch.tuning.reuse import LogSource
from tvm_stitch.tuning.tasks import tasks_of
from tvm_stitch.tuning.whole.parts import EVERY, FUSION, KERNELS, Parts, key_of, measured_parts
from tvm_stitch.tuning.whole.whole_session import TunedSubject, WholeSession

HERE = device_key(device(2))
SUBJECT = TunedSubject(__file__, {}, "tuning.db")


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return zoo.subgraph("softmax")


@pytest.fixture
def log(tmp_path):
    with Log.open(tmp_path / "tuning.db", create=True) as made:
        yield made


@pytest.fixture
def tuned(log, model):
    """The log, with one trial of another number of tasks."""
    (task,) = tasks_of(Request(model, threads=2)).tasks
    made = task.candidates
    other = next(d for d in made.neighbours(made.default) if d.tasks == 8)
    found = trial(made, HERE, Outcome(other, 50.0, 100.0, 0.01, 15), features_of(made, other))
    log.append([workload_record(made)], [HERE], [found])
    return log


def module_of(number: int) -> IRModule:
    """Return a module that is another for each number."""
    return IRModule(attrs={"number": number})


def made(parts: Parts) -> IRModule:
    return module_of([(), (FUSION,), (KERNELS,), EVERY].index(parts))


class FakeCrew:
    """Says how many times as fast a model is by some parts of its log."""

    pace = PACE

    def __init__(self, gains: Mapping[Parts, float]) -> None:
        self._gains, self.batches, self.renewed = {(): 1.0} | dict(gains), [], 0

    def take(self, subject: TunedSubject, seed: int) -> None:
        pass

    def renew(self) -> None:
        self.renewed += 1

    def measure(self, candidates: list, pace: object = None) -> list[Outcome]:
        self.batches.append(candidates)
        return [self._outcome(each) for each in candidates]

    def _outcome(self, parts: Parts) -> Outcome:
        if not self._gains[parts]:
            return Outcome(parts, error="results differ")
        return Outcome(parts, 100.0 / self._gains[parts], 100.0, 0.01, 15)


def timed(log: Log, gains: dict, lowered=made) -> tuple[WholeSession, FakeCrew]:
    crew = FakeCrew(gains)
    session = WholeSession(SUBJECT, lowered, log, crew, HERE, 1)
    session.run(None, None)
    return session, crew


def parts_now(log: Log, device: str = HERE.key) -> Parts:
    return measured_parts(log, device, made(EVERY))


def test_all_of_a_log_that_is_faster_is_gone_by_and_not_measured_again(log):
    session, crew = timed(log, {EVERY: 1.25})
    assert session.taken == EVERY and session.default_ns / session.ns == 1.25
    assert {*crew.batches[0]} == {(), EVERY} and len(crew.batches) == 6 and crew.renewed == 1
    assert log.choice(key_of(made(EVERY)), HERE.key) is not None
    again, crew = timed(log, {EVERY: 1.25})
    assert again.taken is None and not crew.batches


@pytest.mark.parametrize(
    ("gains", "taken"),
    [
        ({(FUSION,): 0.9, (KERNELS,): 1.1}, (KERNELS,)),
        ({(FUSION,): 1.1, (KERNELS,): 1.05}, (FUSION,)),
        ({(FUSION,): 1.009, (KERNELS,): 0.99}, ()),
        ({(FUSION,): 0.0, (KERNELS,): 1.1}, (KERNELS,)),
    ],
)
@pytest.mark.parametrize("whole", [0.97, 1.009, 0.0])
def test_what_is_no_faster_as_a_whole_goes_by_a_part_or_by_default(log, gains, taken, whole):
    session, _ = timed(log, gains | {EVERY: whole})
    assert session.taken == taken
    assert parts_now(log) == taken
    assert parts_now(log, "0" * 64) == EVERY


def test_a_gain_that_is_seen_in_some_processes_alone_is_none(log):
    class Crew(FakeCrew):
        def _outcome(self, parts):
            lucky = parts == EVERY and len(self.batches) in (1, 2, 3)
            return Outcome(parts, 100.0 / (1.05 if lucky else 1.0), 100.0, 0.01, 5)

    session = WholeSession(SUBJECT, made, log, Crew({}), HERE, 1)
    session.run(None, None)
    assert session.taken == ()


def test_a_gain_is_over_what_the_default_shows_of_itself(log):
    others = {(FUSION,): 1.0, (KERNELS,): 1.0}
    assert timed(log, others | {EVERY: 1.02, (): 1.03})[0].taken == ()


def test_a_default_that_is_slower_beside_itself_hides_no_gain(log):
    assert timed(log, {EVERY: 1.0, (): 0.97})[0].taken == EVERY


def test_a_part_that_is_all_or_nothing_is_not_built_again(log):
    def fusion_alone(parts: Parts) -> IRModule:
        return module_of(FUSION in parts)

    session, crew = timed(log, {EVERY: 0.9}, fusion_alone)
    assert session.taken == () and {*map(frozenset, crew.batches)} == {frozenset({(), EVERY})}


def test_a_model_that_is_its_default_is_not_timed(log):
    session, crew = timed(log, {}, lambda _parts: module_of(0))
    assert session.taken is None and not crew.batches
    assert log.counts()["choices"] == 0


def test_ctrl_c_leaves_nothing_known(log):
    class Crew(FakeCrew):
        def measure(self, candidates, pace=None):
            raise KeyboardInterrupt

    session = WholeSession(SUBJECT, made, log, Crew({}), HERE, 1)
    session.run(None, None)
    assert session.interrupted and log.counts()["choices"] == 0


def test_a_model_whose_module_is_another_by_now_goes_by_all(log):
    timed(log, {EVERY: 0.9, (FUSION,): 0.9, (KERNELS,): 0.9})
    assert measured_parts(log, HERE.key, module_of(7)) == EVERY


@pytest.mark.parametrize(
    "choice", ["3", "null", '["kernels","fusion"]', '["sql"]', "{}", '"kernels"', "[[]]"]
)
def test_a_choice_that_is_no_part_of_a_log_is_left(log, choice):
    key = key_of(made(EVERY))
    log.add_choices([HERE], [PlanChoice("0" * 32, key, HERE.key, choice, 1.0, 2.0, 1.0)])
    assert parts_now(log) == EVERY


def tasks(model: onnx.ModelProto, log: Log | None = None, **options: object) -> list[int]:
    where = None if log is None else log.path
    made = lower(Request(model, threads=2, log=where, **options))
    return [plan.tasks for plan in made.plans.values()]


def leave(log: Log, model: onnx.ModelProto, parts: list[str]) -> None:
    """Have a log say that a model is faster by some parts."""
    with using(LogSource(log)):
        key = key_of(lower(Request(model, threads=2)).mod)
    choice = PlanChoice("1" * 32, key, HERE.key, json.dumps(parts), 1.0, 1.0, 1.0)
    log.add_choices([HERE], [choice])


def test_a_model_that_was_no_faster_compiles_as_by_default(tuned, model, tmp_path):
    usual = tasks(model)
    assert tasks(model, tuned) == [8] != usual
    leave(tuned, model, [])
    assert tasks(model, tuned) == usual
    report = tvm_stitch.explain(model, threads=2, log=tuned.path)
    assert [each.decided for each in report.groups] == ["default"]
    assert "measured no faster by it" in report.log
    assert tasks(model, tuned, dump_dir=tmp_path / "by_log") == usual
    tasks(model, dump_dir=tmp_path / "usual")
    written, without = ({*(tmp_path / n).iterdir()} for n in ("by_log", "usual"))
    assert {path.name for path in written} == {path.name for path in without}
    assert tasks(model, tuned, fuel=10**6) == usual


@pytest.mark.parametrize(("part", "expected"), [(KERNELS, True), (FUSION, False)])
def test_kernels_go_by_the_log_where_they_are_the_part(tuned, model, part, expected):
    leave(tuned, model, [part])
    assert (tasks(model, tuned) == [8]) is expected
    assert f"faster by its {part}" in tvm_stitch.explain(model, threads=2, log=tuned.path).log


def test_forms_go_by_the_log_where_fusion_is_the_part(log):
    forms = ("usual", "other")
    choice = PlanChoice("2" * 32, form_key("op"), HERE.key, '"other"', 1.0, 2.0, 1.0)
    log.add_choices([HERE], [choice])
    told = {parts: LogSource(log, parts).form("op", forms, device(2)) for parts in [EVERY, ()]}
    assert told == {EVERY: "other", (): "usual"}
    assert LogSource(log, [KERNELS]).form("op", forms, device(2)) == "usual"
    planner = object()
    assert LogSource(log, [KERNELS]).planner(planner, device(2)) is planner
    assert LogSource(log, [FUSION]).planner(planner, device(2)) is not planner


@pytest.mark.long
def test_two_processes_know_a_module_by_the_same_key(model, tmp_path):
    onnx.save(model, tmp_path / "model.onnx")
    code = (
        "import sys\nfrom tvm_stitch.build import Request, lower\n"
        "from tvm_stitch.tuning.whole.parts import key_of\n"
        "print(key_of(lower(Request(sys.argv[1], threads=2)).mod))"
    )
    asked = [sys.executable, "-c", code, str(tmp_path / "model.onnx")]
    one, other = (
        subprocess.run(asked, capture_output=True, text=True, check=True).stdout for _ in range(2)
    )
    assert one == other != ""


def test_a_worker_builds_a_model_by_parts_of_a_log(tuned, model, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    subject = TunedSubject(path, {"threads": 2}, str(tuned.path))
    builder = TunedBuilder(subject.message())
    texts = {str(n): subject.text(parts) for n, parts in enumerate([(), EVERY, (FUSION,)])}
    refused, calls = builder.build(texts)
    assert not refused
    decided = [[each.decided for each in calls[n].report.groups] for n in range(3)]
    assert decided == [[""], ["tuned, 2.00x"], ["default"]]
    tensors = [tvm.runtime.tensor(array) for array in builder.arrays(seed=1)]
    usual, *others = (builder.run(calls[n], tensors) for n in range(3))
    assert [builder.wrong(got, usual) for got in others] == [None, None]
    assert builder.wrong([np.full_like(each, np.nan) for each in usual], usual) is not None
