"""`tvm-stitch log`: what a person does with tuning logs."""

from __future__ import annotations

import pytest

from support.tuning_log.records import device, failed, key, trial, workload
from tvm_stitch.cli import main
from tvm_stitch.tuning.log import Log


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "a.db"
    with Log.open(made, create=True) as log:
        trials = [trial("a", ns=60.0), trial("b", ns=90.0), failed("c")]
        log.append([workload()], [device()], trials)
    return made


def test_a_list_says_what_each_kernel_gained(path, capsys):
    assert main(["log", "list", str(path)]) == 0
    told = capsys.readouterr().out
    assert "znver5, 2 threads" in told
    (row,) = [line for line in told.splitlines() if line.startswith(f"  {key('w')[:16]} ")]
    assert row.split()[1:] == ["3", "1", "0.12", "2.000"]
    assert "3 trials" in told


def test_an_export_is_imported_and_merged_without_doubles(path, tmp_path, capsys):
    file, again = tmp_path / "log.jsonl", tmp_path / "b.db"
    assert main(["log", "export", str(path), str(file)]) == 0
    for told in ("3 new trials", "0 new trials"):
        assert main(["log", "import", str(again), str(file)]) == 0
        assert capsys.readouterr().out.startswith(told)
    assert main(["log", "merge", str(tmp_path / "c.db"), str(path), str(again)]) == 0
    assert [line[:12] for line in capsys.readouterr().out.splitlines()] == [
        "3 new trials",
        "0 new trials",
    ]


def test_pruning_leaves_the_best(path, capsys):
    assert main(["log", "prune", str(path), "--keep", "1"]) == 0
    assert capsys.readouterr().out == "2 trials removed\n"
    with Log.open(path) as log:
        assert [each.ns for each in log.trials()] == [60.0]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(["list", "none.db"], "No such file", id="no-log"),
        pytest.param(["export", "{log}", "/dev/full"], "/dev/full", id="no-regular-file"),
        pytest.param(["import", "{log}", "{log}"], "line 1", id="no-export"),
        pytest.param(["merge", "{log}", "{log}"], "is the log itself", id="itself"),
    ],
)
def test_what_cannot_be_done_is_one_line(path, capsys, arguments, told):
    assert main(["log", *(each.format(log=path) for each in arguments)]) == 1
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1
