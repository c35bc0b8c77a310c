"""`tvm-stitch tune`: a model is tuned into a log; what can't be is told in one line."""

from __future__ import annotations

import argparse
import importlib.util

import onnx
import pytest
import zoo

from support.models.runtime import convolution
from support.tuning.models import read_again
from tir_schedules.decision_source import using
from tvm_stitch.build import Request
from tvm_stitch.cli import main
from tvm_stitch.cli.options import parse_seconds
from tvm_stitch.tuning.forms.form_session import FormSession
from tvm_stitch.tuning.log import Log, PlanChoice
from tvm_stitch.tuning.log.fingerprint import device_key
from tvm_stitch.tuning.lowered_model import lowered_model
from tvm_stitch.tuning.plans import partition
from tvm_stitch.tuning.plans.choosing import ChoosingSource
from tvm_stitch.tuning.plans.model_regions import regions_of
from tvm_stitch.tuning.plans.plan_policy import PlanPolicy
from tvm_stitch.tuning.tasks import UNFUSED, tasks_in, tasks_of
from tvm_stitch.tuning.whole.whole_session import WholeSession

EVERY = PlanPolicy(doubt=1e9, runners_up=99, worth=0.0)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "softmax.onnx"
    onnx.save(zoo.subgraph("softmax"), path)
    return path


@pytest.mark.long
def test_a_model_is_tuned_and_tuned_further(model, tmp_path, capsys):
    log = tmp_path / "tuning.db"
    trials = []
    for seed in (1, 2):
        arguments = ["tune", str(model), "--log", str(log), "--trials", "6", "--seed", str(seed)]
        assert main([*arguments, "--threads", "1"]) == 0
        told = capsys.readouterr().out
        assert f"1 kernels, 1 threads, --seed {seed}" in told
        assert "all kernels: " in told and "times as fast" in told
        with Log.open(log) as kept:
            trials.append([each for each in kept.trials() if each.error is None])
    assert len(trials[1]) > len(trials[0]) >= 4
    assert all(each.features for each in trials[1])


def test_the_kernels_of_the_plan_that_is_chosen_are_tuned(tmp_path, capsys):
    """Greater is computed by both of its readers, which is another kernel than is planned."""
    path, where = tmp_path / "read_again.onnx", tmp_path / "tuning.db"
    onnx.save(read_again(), path)
    request = Request(path, threads=1)
    made = lowered_model(request)
    planned = {task.candidates.workload.key for task in tasks_in(made).tasks}
    parts = regions_of(made.lowered.stages[UNFUSED], made.lowered.target, made.device, EVERY)
    (part,) = (part for part in parts if len(part.region.groups) == 2)
    copied = part.region.alternatives[0].partition
    key, graph = device_key(made.device), part.region.workload.key
    with Log.open(where, create=True) as log:
        choice = PlanChoice("0" * 32, graph, key.key, partition.to_json(copied), 1.0, 2.0, 0.0)
        log.add_choices([key], [choice])
        with using(ChoosingSource(log)):
            chosen = {task.candidates.workload.key for task in tasks_of(request).tasks}
    asked = ["tune", str(path), "--log", str(where), "--threads", "1", "--seed", "1"]
    assert main([*asked, "--trials", "8"]) == 0
    assert "all kernels: " in capsys.readouterr().out
    with Log.open(where) as log:
        tuned = {trial.workload for trial in log.trials()}
    assert tuned and tuned <= chosen and tuned - planned


@pytest.mark.parametrize(("taken", "told"), [(0.2, False), (0.98, True)])
def test_a_machine_that_is_busy_is_told_of(model, tmp_path, capsys, monkeypatch, taken, told):
    monkeypatch.setattr("tvm_stitch.tuning.tune.cpus_taken", lambda: taken)
    arguments = ["--log", str(tmp_path / "tuning.db"), "--trials", "1", "--threads", "1"]
    assert main(["tune", str(model), *arguments]) == 0
    assert ("other processes took 1.0 CPUs" in capsys.readouterr().out) is told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param([], "it has no log to keep its trials in; add --log FILE", id="no-log"),
        pytest.param(["--log", "redis://h/d"], "no database that logs are kept in", id="url"),
        pytest.param(["--log", "/dev/full"], "no regular file", id="device"),
        pytest.param(["--log", "none/at/all.db"], "No such file", id="folder"),
    ],
)
def test_a_log_that_cannot_be_is_one_line(model, capsys, arguments, told):
    assert main(["tune", str(model), *arguments]) == 1
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1


@pytest.mark.parametrize("session", [FormSession, WholeSession])
def test_a_short_budget_is_not_spent_on_whole_models(tmp_path, capsys, monkeypatch, session):
    """A form is a build of the whole model: beside that the share of a second is nothing."""
    path, where = tmp_path / "convolution.onnx", tmp_path / "tuning.db"
    onnx.save(convolution(), path)
    begun = []
    monkeypatch.setattr(session, "run", lambda _self, *budget: begun.append(budget))
    asked = ["tune", str(path), "--log", str(where), "--threads", "1"]
    assert main([*asked, "--budget", "1s"]) == 0
    assert not begun
    assert main([*asked, "--trials", "1"]) == 0
    assert len(begun) == 1


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("1.5m", 90), ("2h", 7200), ("5s", 5)])
def test_a_budget_has_a_unit(text, seconds):
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "0", "-5m", "nan", "inf", "5d", "1e999"])
def test_what_is_no_budget_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError):
        parse_seconds(text)


@pytest.mark.long
def test_what_was_tuned_goes_through_metaschedules_database(model, tmp_path, capsys):
    log, folder = str(tmp_path / "a.db"), str(tmp_path / "db")
    main(["tune", str(model), "--log", log, "--trials", "1", "--seed", "1", "--threads", "1"])
    capsys.readouterr()
    of_model = ["--tvm", str(model), "--threads", "1"]
    assert main(["log", "export", log, folder, *of_model]) == 0
    exported = int(capsys.readouterr().out.split()[0])
    assert main(["log", "import", str(tmp_path / "b.db"), folder, *of_model]) == 0
    assert 0 < int(capsys.readouterr().out.split()[0]) <= exported


def test_without_xgboost_the_extra_is_named(model, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert main(["tune", str(model), "--log", str(tmp_path / "a.db")]) == 1
    assert "pip install 'tvm-stitch[tune]'" in capsys.readouterr().err
