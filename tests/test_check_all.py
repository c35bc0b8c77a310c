"""check_all.py runs its cases in workers, survives their death, and records what it ran on."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

from checks import ROOT, crew, record

SCRIPT = ROOT / "scripts/check_all.py"


def check_all(*arguments):
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_record_says_what_ran_where(tmp_path):
    path = tmp_path / "record.json"
    done = check_all("--only", "random", "--first", 3, "--allow-dirty", "-o", path)
    assert done.returncode == 0, done.stderr
    written = json.loads(path.read_text())
    assert written["commit"] == record.commit()
    assert written["machine"]["cpus"] >= 1
    assert "apache-tvm" in written["versions"]
    section = written["sections"]["random"]
    assert (section["cases"], section["ran"], section["wrong"]) == (3, 3, {})


def test_an_unknown_section_is_bad_usage():
    done = check_all("--only", "everything")
    assert done.returncode == 2
    assert "use models, matrix, random, plans" in done.stderr


def test_a_case_that_raises_answers_with_its_traceback():
    worker = crew.Worker("random")
    assert "ValueError" in worker.run("no seed")["error"]
    assert worker.run("7") == {"wrong": []}
    worker.stop()


def test_a_case_that_kills_its_process_is_wrong_and_the_next_one_runs():
    worker = crew.Worker("random")
    worker.run("no seed")
    worker._process.kill()
    assert "died with exit code -9" in worker.run("7")["error"]
    assert worker.run("7") == {"wrong": []}
    worker.stop()


def test_nothing_runs_after_the_deadline():
    assert list(crew.run_cases("random", ["7", "8"], 2, time.monotonic())) == []


HEAD = {"commit": "a", "clean": True}


@pytest.mark.parametrize(
    ("head", "kept"),
    [
        pytest.param(HEAD, True, id="same-commit"),
        pytest.param({"commit": "b", "clean": True}, False, id="another-commit"),
        pytest.param({"commit": "a", "clean": False}, False, id="dirty"),
    ],
)
def test_sections_of_the_same_commit_stay_in_the_record(tmp_path, head, kept):
    path = tmp_path / "record.json"
    record.write(path, HEAD, {"models": {}})
    record.write(path, head, {"random": {}})
    assert ("models" in json.loads(path.read_text())["sections"]) == kept


def test_a_dirty_tree_is_refused(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import check_all as script

    monkeypatch.setattr(record, "dirty_files", lambda: [" M README.md"])
    monkeypatch.setattr(sys, "argv", ["check_all.py", "-o", str(tmp_path / "record.json")])
    assert script.main() == 1
    assert not list(tmp_path.iterdir())
