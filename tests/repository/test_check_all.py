"""check_all.py runs its cases in workers, survives their death, and records what it ran on."""

import json
import subprocess
import sys
import time
from collections import Counter
from types import SimpleNamespace

import git_state
import pytest
from checks import ROOT, crew, loaded, record, sample, suite_section

SCRIPT = ROOT / "scripts/check_all.py"


def check_all(*arguments):
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_record_says_what_ran_where(tmp_path):
    path = tmp_path / "record.json"
    few = ("--only", "random", "--first", 3, "--seed", 5, "--workers", 1)
    done = check_all(*few, "--allow-dirty", "-o", path)
    assert done.returncode == 0, done.stderr
    assert "--seed 5" in done.stdout
    written = json.loads(path.read_text())
    assert written["commit"] == record.commit()
    assert written["machine"]["cpus"] >= 1
    assert "apache-tvm" in written["versions"]
    section = written["sections"]["random"]
    assert (section["cases"], section["ran"], section["wrong"]) == (3, 3, {})
    (run,) = section["runs"]
    assert (run["seed"], run["ran"], run["commit"]) == (5, 3, written["commit"])
    assert "tir_schedules/cuda" in section["left_out"]
    assert not any(each.startswith("tir_schedules/cpu/emit") for each in section["left_out"])


def test_what_is_long_for_ci_is_a_file_of_the_section_suite():
    command = [sys.executable, "-m", "pytest", "--long", "--collect-only", "tests/repository"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    files = {line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line}
    cases = {case for case in suite_section.cases(0) if case.startswith("tests/repository/")}
    assert "tests/repository/test_gpu_suite.py" in files and files <= cases


def test_an_unknown_section_is_bad_usage():
    done = check_all("--only", "everything")
    assert done.returncode == 2
    assert "use models, matrix, random, plans" in done.stderr


@pytest.mark.long
def test_a_case_that_raises_or_does_not_end_or_kills_its_process_is_wrong_alone(monkeypatch):
    worker = crew.Worker("random")
    assert "ValueError" in worker.run("no seed")["error"]
    assert worker.run("7")["wrong"] == []
    with monkeypatch.context() as patch:
        patch.setattr(crew, "MOST_SECONDS", 0.0)
        assert "no answer within 0 seconds" in worker.run("7")["error"]
    worker.run("no seed")
    worker._process.kill()
    assert "died with exit code -9" in worker.run("7")["error"]
    assert worker.run("7")["wrong"] == []
    worker.stop()


def test_nothing_runs_after_the_deadline():
    assert list(crew.run_cases("random", ["7", "8"], 2, time.monotonic())) == []


FIXED = SimpleNamespace(cases=lambda _seed: [f"case {i}" for i in range(10)])
DRAWN = SimpleNamespace(cases=lambda seed: sample.draw(10, seed))


PLACE = {"commit": "a", "cpu": "b"}


def ran(section, before, seed, count, rest=False):
    """Return the record of a section after a run that its budget ended after `count` cases."""
    numbers = {"seed": seed, "rest": rest, "cases": 10, "ran": count, "seconds": 1.0}
    return sample.total(section, before, {**numbers, **PLACE, "wrong": {}, "measured": {}})


def test_a_seed_says_which_cases_run_in_which_order():
    cases = FIXED.cases(0)
    assert sample.todo(cases, 1) == sample.todo(reversed(cases), 1) != sample.todo(cases, 2)
    assert sorted(sample.todo(cases, 1)) == cases
    assert sample.draw(10, 1) == sample.draw(10, 1)
    assert not {*sample.draw(1000, 1)} & {*sample.draw(1000, 2)}
    assert len({sample.new_seed() for _ in range(10)}) == 10


def test_every_case_has_the_same_chance_in_a_part_of_a_run():
    firsts = Counter(case for seed in range(2000) for case in sample.todo(FIXED.cases(0), seed)[:3])
    assert all(500 < firsts[case] < 700 for case in FIXED.cases(0))


def test_a_wrong_case_that_is_run_again_is_what_it_was_then():
    run = {"seed": 1, "rest": False, "cases": 10, "ran": 10, "seconds": 1.0, **PLACE}
    wrong = {"a": {"wrong": ["x"]}, "b": {"wrong": ["y"]}, "c": {"wrong": ["z"]}}
    before = sample.total(FIXED, {}, {**run, "wrong": wrong, "measured": {}})
    again = {**run, "ran": 2, "again": ["a", "b"], "wrong": {"b": {"wrong": ["new"]}}}
    record = sample.total(FIXED, before, {**again, "measured": {}})
    assert record["wrong"] == {"b": {"wrong": ["new"]}, "c": {"wrong": ["z"]}}
    assert record["ran"] == record["cases"] == 10
    assert [run.get("again") for run in record["runs"]] == [None, ["a", "b"]]


@pytest.mark.parametrize("section", [FIXED, DRAWN], ids=["fixed", "drawn"])
def test_the_rest_of_several_parts_is_the_whole(section):
    record = {}
    for seed, count in ((1, 4), (2, 3), (3, 3)):
        left = sample.todo(
            section.cases(seed), seed, sample.done_by(section, record.get("runs", ()))
        )
        assert len(left) == 10 - record.get("ran", 0)
        record = ran(section, record, seed, count, rest=True)
    assert (record["cases"], record["ran"], record["seconds"]) == (10, 10, 3.0)


def test_a_case_that_ran_twice_counts_once():
    both = ran(FIXED, ran(FIXED, {}, 1, 6), 2, 6)
    seen = {*sample.todo(FIXED.cases(1), 1)[:6], *sample.todo(FIXED.cases(2), 2)[:6]}
    assert 6 < both["ran"] == len(seen) < 12
    assert ran(DRAWN, ran(DRAWN, {}, 1, 6), 1, 4)["ran"] == 6
    assert ran(DRAWN, ran(DRAWN, {}, 1, 6), 2, 6)["ran"] == 12


def test_what_an_earlier_run_found_wrong_stays():
    first = {"seed": 1, "rest": False, "cases": 10, "ran": 2, "seconds": 1.0, **PLACE}
    first |= {"wrong": {"case 1": {"wrong": ["NaN"]}}, "measured": {"case 2": {"ms": 1}}}
    record = ran(FIXED, sample.total(FIXED, {}, first), 2, 10)
    assert list(record["wrong"]) == ["case 1"] and list(record["measured"]) == ["case 2"]


def test_workers_take_the_first_cases_of_the_order(monkeypatch):
    monkeypatch.setattr(crew.Worker, "run", lambda _worker, case: {"case": time.sleep(0.01)})
    cases = [str(i) for i in range(100)]
    taken = [case for case, _ in crew.run_cases("random", cases, 3, time.monotonic() + 0.1)]
    assert 3 <= len(taken) < 100
    assert {*taken} == {*cases[: len(taken)]}


@pytest.fixture
def commits(tmp_path, monkeypatch):
    """Return a function that commits a change to one file of a repository, and its commit."""
    monkeypatch.setattr(git_state, "_ROOT", tmp_path)
    git_state.git("init", "-q")

    def commit(name):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.read_text() + "1" if path.exists() else "")
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        git_state.git("add", ".")
        git_state.git(*who, "commit", "-qm", name)
        return record.commit()

    return commit


FIRST = tuple(f"{package}/a.py" for package in loaded.CODE)


@pytest.mark.parametrize(
    ("changed", "clean", "kept"),
    [
        pytest.param("README.md", True, True, id="no-package"),
        pytest.param("tvm_stitch/tuning/a.py", True, True, id="the-tuner"),
        pytest.param("tir_schedules/a.py", True, False, id="a-package"),
        pytest.param("tvm_stitch/tunings.py", True, False, id="a-package-file"),
        pytest.param("README.md", False, False, id="dirty"),
    ],
)
def test_sections_of_the_same_code_stay_in_the_record(tmp_path, commits, changed, clean, kept):
    path = tmp_path.parent / f"{tmp_path.name}.json"
    for name in FIRST:
        before = commits(name)
    record.write(path, {"commit": before, "clean": True}, {"models": {}})
    record.write(path, {"commit": commits(changed), "clean": clean}, {"random": {}})
    assert ("models" in json.loads(path.read_text())["sections"]) == kept


@pytest.mark.parametrize(
    ("changed", "kept"), [("tvm_stitch/torch/a.py", True), ("tvm_stitch/torchs.py", False)]
)
def test_a_section_stands_while_what_it_loaded_is_the_same(tmp_path, commits, changed, kept):
    path = tmp_path.parent / f"{tmp_path.name}.json"
    for name in FIRST:
        before = commits(name)
    sections = {"models": {"left_out": ["tvm_stitch/torch"]}, "wild": {"left_out": []}}
    record.write(path, {"commit": before, "clean": True}, sections)
    record.write(path, {"commit": commits(changed), "clean": True}, {"random": {}})
    expected = ["models", "random"] if kept else ["random"]
    assert [*json.loads(path.read_text())["sections"]] == expected


def test_a_folder_is_left_out_of_which_nothing_is_loaded():
    files = ["a/b/c.py", "a/b/d.py", "a/e.py", "f/g.py"]
    assert loaded.without({"a/e.py"}, files) == ["a/b", "f"]
    assert loaded.without({"a/b/c.py"}, files) == ["a/b/d.py", "a/e.py", "f"]
    assert loaded.common(["a/b", "f"], ["a/b/d.py", "a/e.py", "f"]) == ["a/b/d.py", "f"]


STARTED = """
import {module}, sys
sys.path.insert(0, "scripts")
from checks.loaded import Loaded
loaded = Loaded()
import tir_schedules
{call}
print(len(loaded.left_out()))
"""


@pytest.mark.long(every=3)
@pytest.mark.parametrize(
    ("module", "call", "told"),
    [
        ("subprocess", "subprocess.run(['true'])", True),
        ("subprocess", "subprocess.run([sys.executable, '-c', ''])", False),
        ("os", "os.fork() or os._exit(0)", False),
    ],
)
def test_what_another_process_may_have_loaded_is_not_left_out(module, call, told):
    code = STARTED.format(module=module, call=call)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert (int(done.stdout) > 0) == told


def test_what_any_run_has_loaded_is_not_left_out():
    run = {"seed": 1, "rest": False, "cases": 10, "ran": 2, "seconds": 1.0, **PLACE}
    run |= {"wrong": {}, "measured": {}}
    untold = sample.total(FIXED, {}, run)
    assert untold["left_out"] == []
    told = sample.total(FIXED, untold, {**run, "left_out": ["a", "b"]})
    assert told["left_out"] == ["a", "b"]
    assert sample.total(FIXED, told, {**run, "left_out": ["b"]})["left_out"] == ["b"]


def test_sections_of_an_unknown_commit_are_left_out(tmp_path, commits):
    path = tmp_path.parent / f"{tmp_path.name}.json"
    commits(FIRST[0])
    record.write(path, {"commit": "0" * 40, "clean": True}, {"models": {}})
    record.write(path, {"commit": record.commit(), "clean": True}, {"random": {}})
    assert [*json.loads(path.read_text())["sections"]] == ["random"]
