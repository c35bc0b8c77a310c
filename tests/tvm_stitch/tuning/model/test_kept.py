"""Models in files: beside a log and of its trials, or shipped for a CPU; a file may be anything."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from support import ROOT
from support.tuning_log.records import device, trial, workload
from tvm_stitch.errors import StitchError
from tvm_stitch.tuning.log import Log
from tvm_stitch.tuning.model import kept, rows
from tvm_stitch.tuning.model.gains import GainModel

HERE = device("here")
ROW = {"lanes": 0.5, "size": 2.0}


def trials(count: int, kernels: int = 4) -> list:
    made = []
    for number in range(count):
        lanes = (number % 17) / 8 - 1
        text = rows.to_json({"lanes": lanes, "size": float(number % kernels)})
        of, ns = f"{number % kernels}", 100 * 2.0**-lanes
        made.append(trial(f"{number}", of, "here", ns=ns, features=text))
    return made


@pytest.fixture
def log(tmp_path):
    with Log.open(tmp_path / "tuning.db", create=True) as made:
        made.append([workload(f"{n}") for n in range(4)], [HERE], trials(200))
        yield made


def test_a_kept_model_is_taken_until_the_log_has_more(log):
    trained = kept.model_of(log, HERE, "cpu")
    assert trained.booster is not None and 0.0 < trained.error < math.inf
    kept.keep(log, HERE)
    path = kept.beside(log, HERE)
    assert path.parent == log.path.parent and HERE.key[:12] in path.name
    again = kept.model_of(log, HERE, "cpu")
    assert again.of == log.learnable(HERE.key) and again.error == trained.error
    assert again.predict([ROW]) == trained.predict([ROW])
    replace(again, error=0.125).save(path)  # so that it is known from one that is trained anew
    assert kept.model_of(log, HERE, "cpu").error == 0.125
    log.append([], [], [trial("more", "1", "here", ns=1.0, features=rows.to_json(ROW))])
    fresh = kept.model_of(log, HERE, "cpu")
    assert fresh.error != 0.125
    assert fresh.of != again.of and fresh.predict([ROW]) != again.predict([ROW])


def test_of_too_few_trials_the_shipped_model_is_taken(tmp_path, log, shipped):
    model = kept.model_of(log, HERE, "cpu")
    model.save(shipped / "cpu.json")
    with Log.open(tmp_path / "empty.db", create=True) as empty:
        assert kept.model_of(empty, HERE, "cpu").error == model.error
        assert kept.model_of(empty, HERE, "another").booster is None
        kept.keep(empty, HERE)
        assert not kept.beside(empty, HERE).exists()


def test_another_devices_trials_are_not_learned(log):
    there = device("there")
    assert kept.model_of(log, there, "cpu").booster is None


def test_a_file_beside_the_log_that_is_no_model_is_refused(log):
    kept.beside(log, HERE).write_text("{}")
    with pytest.raises(StitchError, match="is no model of gains"):
        kept.model_of(log, HERE, "cpu")


@pytest.mark.parametrize(
    "facts",
    [{"error": "nan"}, {"error": "-1"}, {"error": "x"}, {"error": [1]}, [], {"of": 3}],
)
def test_what_a_model_says_of_itself_is_checked(log, facts):
    kept.keep(log, HERE)
    path = kept.beside(log, HERE)
    data = json.loads(path.read_text())
    data["learner"]["attributes"] = facts
    path.write_text(json.dumps(data))
    with pytest.raises(StitchError, match="is no model of gains"):
        GainModel.load(path)


def test_the_models_in_the_package_are_models_that_know_their_error():
    found = sorted((ROOT / "tvm_stitch" / "tuning" / "model" / "shipped").glob("*.json"))
    assert found
    for path in found:
        assert 0.0 < GainModel.load(path).error < 1.0
