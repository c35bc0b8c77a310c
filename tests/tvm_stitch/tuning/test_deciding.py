"""A model compiled by a log: its kernels run as was tuned, the rest as by default."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import tvm
import tvm_ffi
import zoo
from tvm.ir import IRModule
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

import tvm_stitch
from support.tuning.kernels import TARGET, device
from tir_schedules import ApplyStitchSchedules
from tir_schedules.decision_source import TUNED
from tir_schedules.tuning.candidates import Candidates
from tvm_stitch.build import Request, lower, understand
from tvm_stitch.tuning.log import Log
from tvm_stitch.tuning.log.fingerprint import device_key
from tvm_stitch.tuning.measure.outcome import Outcome
from tvm_stitch.tuning.records import features_of, trial, workload_record
from tvm_stitch.tuning.reuse import LogSource
from tvm_stitch.tuning.tasks import tasks_of
from tvm_stitch.tuning.tvm_database import export_tvm


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return zoo.subgraph("softmax")


@pytest.fixture
def log(tmp_path, model):
    """A log that has one trial of another number of tasks, twice as fast."""
    (task,) = tasks_of(Request(model, threads=2)).tasks
    made: Candidates = task.candidates
    other = next(d for d in made.neighbours(made.default) if d.tasks == 8)
    here = device_key(device(2))
    found = trial(made, here, Outcome(other, 50.0, 100.0, 0.01, 15), features_of(made, other))
    with Log.open(tmp_path / "tuning.db", create=True) as log:
        log.append([workload_record(made)], [here], [found])
        yield log


def tasks(model: onnx.ModelProto, log: Log | None = None, threads: int = 2) -> list[int]:
    asked = Request(model, threads=threads, log=None if log is None else log.path)
    return [plan.tasks for plan in lower(asked).plans.values()]


def test_a_kernel_runs_as_it_was_tuned(model, log):
    (usual,) = tasks(model)
    assert tasks(model, log) == [8] != [usual]
    assert tasks(model) == [usual]
    tuned = tvm_stitch.compile(model, threads=2, log=log.path)
    assert [each.decided for each in tuned.report.groups] == ["tuned, 2.00x"]
    assert str(tuned.report).count("1 trials of this device") == 1
    feeds = zoo.random_inputs(model)
    want = tvm_stitch.compile(model, threads=2).run(feeds)
    for name, got in tuned.run(feeds).items():
        np.testing.assert_allclose(got, want[name], rtol=1e-5, atol=1e-6)


def test_the_same_log_makes_the_same_module_twice(model, log):
    made = [lower(Request(model, threads=2, log=log.path)).mod for _ in range(2)]
    assert tvm_ffi.structural_equal(*made)


def test_what_was_measured_on_other_threads_is_left_and_told(model, log):
    assert tasks(model, log, threads=1) == tasks(model, threads=1)
    report = tvm_stitch.explain(model, threads=1, log=log.path)
    assert [each.decided for each in report.groups] == ["default"]
    assert "0 trials of this device, 1 of other devices or thread counts are left out" in report.log


def test_a_pipeline_of_tvm_asks_the_log_that_is_entered(model, log):
    mod = understand(Request(model, threads=2)).imported.mod
    usual = scheduled(mod)
    with LogSource.open(log.path):
        tuned = scheduled(mod)
    assert not tvm_ffi.structural_equal(usual, tuned)
    assert tvm_ffi.structural_equal(usual, scheduled(mod))


def test_a_metaschedule_database_decides_alike(model, log, tmp_path):
    export_tvm(log, tasks_of(Request(model, threads=2)), tmp_path / "exported")
    mod = understand(Request(model, threads=2)).imported.mod
    with LogSource.open(log.path):
        want = scheduled(mod)
    database = ms.database.JSONDatabase(work_dir=str(tmp_path / "exported"), allow_missing=False)
    with database:
        assert tvm_ffi.structural_equal(scheduled(mod), want)
    given = ApplyStitchSchedules(database=database)
    with TARGET:
        fused = lower(Request(model, threads=2)).stages["DeadCodeElimination"]
        given(fused)
    assert {name: each.how for name, each in given.decided.items()} == {"softmax": TUNED}
    assert [plan.tasks for plan in given.plans.values()] == [8]


def test_of_another_target_a_database_decides_nothing(model, log, tmp_path):
    export_tvm(log, tasks_of(Request(model, threads=2)), tmp_path / "exported")
    database = ms.database.JSONDatabase(work_dir=str(tmp_path / "exported"), allow_missing=False)
    given = ApplyStitchSchedules(database=database)
    with Target({**TARGET.export(), "mcpu": "x86-64-v3", "num-cores": 2}):
        given(lower(Request(model, threads=2)).stages["DeadCodeElimination"])
    assert given.decided == {"softmax": None}


def scheduled(mod: IRModule) -> IRModule:
    with TARGET:
        return tvm.relax.get_pipeline("tvm_stitch")(mod)
