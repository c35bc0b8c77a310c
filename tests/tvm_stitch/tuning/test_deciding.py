"""A model compiled by a log: its kernels run as was tuned, the rest as by default."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import tvm_ffi
import zoo

import tvm_stitch
from support.tuning.kernels import device
from tir_schedules.tuning.candidates import Candidates
from tvm_stitch.build import Request, lower
from tvm_stitch.tuning.log import Log
from tvm_stitch.tuning.log.fingerprint import device_key
from tvm_stitch.tuning.measure.outcome import Outcome
from tvm_stitch.tuning.records import features_of, trial, workload_record
from tvm_stitch.tuning.reuse import TUNED, deciding
from tvm_stitch.tuning.tasks import tasks_of


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return zoo.subgraph("softmax")


@pytest.fixture
def log(tmp_path, model):
    """A log that has one trial of another number of tasks, twice as fast."""
    (task,) = tasks_of(Request(model, threads=2)).tasks
    made: Candidates = task.candidates
    other = next(d for d in made.neighbours(made.default) if d.tasks == 2)
    here = device_key(device(2))
    found = trial(made, here, Outcome(other, 50.0, 100.0, 0.01, 15), features_of(made, other))
    with Log.open(tmp_path / "tuning.db", create=True) as log:
        log.append([workload_record(made)], [here], [found])
        yield log


def tasks(model: onnx.ModelProto, threads: int = 2) -> list[int]:
    return [plan.tasks for plan in lower(Request(model, threads=threads)).plans.values()]


def test_a_kernel_runs_as_it_was_tuned(model, log):
    (usual,) = tasks(model)
    with deciding(log, device(2)) as told:
        assert tasks(model) == [2] != [usual]
        tuned = tvm_stitch.compile(model, threads=2)
    assert [each.how for each in told.values()] == [TUNED]
    assert tasks(model) == [usual]
    feeds = zoo.random_inputs(model)
    want = tvm_stitch.compile(model, threads=2).run(feeds)
    for name, got in tuned.run(feeds).items():
        np.testing.assert_allclose(got, want[name], rtol=1e-5, atol=1e-6)


def test_the_same_log_makes_the_same_module_twice(model, log):
    made = []
    for _ in range(2):
        with deciding(log, device(2)):
            made.append(lower(Request(model, threads=2)).mod)
    assert tvm_ffi.structural_equal(*made)


def test_what_was_measured_on_other_threads_is_left(model, log):
    with deciding(log, device(2)) as told:
        tasks(model, threads=1)
    assert not told
