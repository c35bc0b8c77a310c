"""A profile fitted to a log: times of another profile are predicted by that one's figures."""

from __future__ import annotations

import json
import random
import time
import uuid
from dataclasses import replace

import numpy as np
import pytest

from support.tuning.kernels import KERNELS, device, normalised, product, softmax
from tir_schedules.decisions import to_json
from tir_schedules.tuning.candidates import Candidates
from tir_schedules.tuning.features import predicted_ns
from tvm_stitch.cli import main
from tvm_stitch.errors import StitchError
from tvm_stitch.tuning.log import Log, Trial
from tvm_stitch.tuning.log.fingerprint import device_key
from tvm_stitch.tuning.records import workload_record
from tvm_stitch.tuning.refit.figures import FIGURES, scaled
from tvm_stitch.tuning.refit.fit import fit
from tvm_stitch.tuning.refit.from_log import describe, refit

HERE = device()
LARGER = [
    softmax(1024, 512),
    softmax(512, 65536),
    softmax(3, 5),
    normalised(1 << 16, 1024),
    normalised(2048, 768),
    normalised(4, 64),
    product(256, 256, 256),
]
TRUE = {"op_ns exp": 0.7, "op_ns light": -0.6, "region_ns": 1.0, "a byte of memory": 0.5}


def trial(candidates: Candidates, decisions: object, ns: float) -> Trial:
    return Trial(
        uid=uuid.UUID(int=random.getrandbits(128)).hex,
        workload=candidates.workload.key,
        device=device_key(HERE).key,
        decisions=to_json(decisions),
        features=None,
        ns=ns,
        default_ns=ns,
        noise=0.01,
        runs=15,
        error=None,
        created=time.time(),
    )


def measured(func, powers) -> tuple[Candidates, list[Trial]]:
    """Return trials that take what a profile with other figures says."""
    made, rng = Candidates.of(func, HERE), random.Random(4)
    there = replace(HERE, profile=scaled(HERE.profile, powers))
    drawn = [made.default, *(made.space.sample(rng) for _ in range(24))]
    plans = {each: made.plan(each) for each in drawn}
    return made, [
        trial(made, each, predicted_ns(plan, there))
        for each, plan in plans.items()
        if not isinstance(plan, str)
    ]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    powers = [TRUE.get(name, 0.0) for name in FIGURES]
    with Log.open(tmp_path_factory.mktemp("log") / "tuning.db", create=True) as made:
        for func in [*(make() for make in KERNELS.values()), *LARGER]:
            candidates, trials = measured(func, powers)
            made.append([workload_record(candidates)], [device_key(HERE)], trials)
        yield made


@pytest.fixture(scope="module")
def found(log):
    return refit(log, HERE, "command")


@pytest.mark.long
def test_figures_that_times_were_made_of_are_found(found):
    powers = dict(zip(FIGURES, found.fit.powers, strict=True))
    for name, power in TRUE.items():
        assert powers[name] == pytest.approx(power, abs=0.25), name
    assert found.fit.after < 0.25 * found.fit.before
    assert found.fit.after < found.fit.unseen < found.fit.before
    assert found.kernels == len(KERNELS) + len(LARGER)
    assert found.profile.op_ns["exp"] == pytest.approx(
        HERE.profile.op_ns["exp"] * 2.0 ** powers["op_ns exp"]
    )
    assert found.profile.command == "command" and found.profile.mcpu == HERE.profile.mcpu
    lines = list(describe(found))
    assert any(line.startswith("region_ns takes ") for line in lines)


@pytest.mark.long
def test_the_same_log_gives_the_same_profile(log, found):
    assert refit(log, HERE, "command").profile == found.profile


def test_of_too_few_kernels_nothing_is_learned(tmp_path):
    candidates, trials = measured(softmax(), [0.0] * len(FIGURES))
    with Log.open(tmp_path / "tuning.db", create=True) as few:
        few.append([workload_record(candidates)], [device_key(HERE)], trials)
        with pytest.raises(StitchError, match="has trials of 1 kernels of this device, fewer than"):
            refit(few, HERE, "command")


def test_a_text_of_another_kernel_is_refused(tmp_path):
    candidates, trials = measured(softmax(), [0.0] * len(FIGURES))
    wrong = replace(workload_record(candidates), text="t0 float32[1]\nreturn t0")
    with Log.open(tmp_path / "tuning.db", create=True) as log:
        log.append([wrong], [device_key(HERE)], trials)
        with pytest.raises(StitchError, match="its text is another kernel's; delete it"):
            refit(log, HERE, "command")


def test_a_figure_that_no_kernel_tells_of_stays():
    slopes = np.array([[1.0, 0.0], [0.5, 0.0], [0.25, 0.0]])
    found = fit(lambda powers: slopes @ powers, slopes @ [1.0, 0.0], ["a", "b", "c"], 2)
    assert found.powers[0] == pytest.approx(1.0, abs=0.2) and found.powers[1] == 0.0


def test_a_far_error_hardly_counts():
    slopes = np.ones((20, 1))
    measured = np.append(np.full(19, 0.5), 9.0)
    names = [str(n) for n in range(20)]
    assert fit(lambda powers: slopes @ powers, measured, names, 1).powers[0] < 0.7


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--from-log", "none.db"], "No such file"),
        (["--profile", "a.json"], "says nothing: everything is measured"),
    ],
)
def test_what_cannot_be_is_one_line(arguments, told, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["calibrate", *arguments]) == 1
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1


def test_the_command_writes_the_profile(log, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("tir_schedules.host.available_cpus", lambda: 2)
    out = tmp_path / "profile.json"
    assert main(["calibrate", "--from-log", log.name, "--threads", "2", "-o", str(out)]) == 0
    assert "of kernels unseen" in capsys.readouterr().out
    written = json.loads(out.read_text())
    assert written["command"] == "tvm-stitch calibrate --threads 2 --from-log LOG"
