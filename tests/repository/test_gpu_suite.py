"""The suite for a GPU, run where there is none: fibers play it, small scripts play its tools."""

import json
import os
import subprocess
import sys

import pytest
from suite import record, table, tools
from suite.steps import KINDS, steps

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
# Writes what ncu does where it is told to, then runs what it is to watch.
NCU = """#!/bin/sh
while [ "$1" != --log-file ]; do shift; done
cat > "$2" <<'END'
==PROF== Connected
"ID","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum"
"","","byte","byte"
"0","one","1,024","96"
"1","two","256","32"
END
shift 2
exec "$@"
"""
SANITIZER = """#!/bin/sh
shift 4
"$@" && echo '========= ERROR SUMMARY: 0 errors'
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    for name, text in (("ncu", NCU), ("compute-sanitizer", SANITIZER)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    command = [sys.executable, "scripts/gpu_suite.py", "--simulated", "--names", "softmax"]
    # memcheck and racecheck are one step but for a word.
    command += ["--only", "numbers,row,traffic,racecheck"]
    command += ["--dtypes", "float32", "-o", str(folder / "out")]
    environment = {**ENVIRONMENT, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    calls = [
        subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        for _ in range(2)
    ]
    return calls, json.loads((folder / "out.json").read_text())["steps"], folder / "out.md"


@pytest.mark.long
def test_every_kind_of_step_runs(ran):
    (first, _), found, _ = ran
    assert not first.returncode, first.stderr
    kinds = {key.partition("/")[0] for key in found}
    assert kinds == set(KINDS) - {"model", "memcheck"}  # softmax is no model
    assert "4 of 4 steps, 0 wrong" in first.stdout


@pytest.mark.long
def test_numbers_are_right(ran):
    numbers = ran[1]["numbers/softmax/float32"]
    assert numbers["of_bound"] <= 1 and numbers["launches"] == [1]


@pytest.mark.long
def test_peers_are_timed_beside_a_copy(ran):
    peers = {each["peer"]: each for each in ran[1]["row/softmax/float32"]["peers"]}
    assert list(peers) == ["stitch", "copy-gpu", "tvm"]
    assert all(each["timing"] and each["call_timing"] for each in peers.values())
    assert peers["tvm"]["apart"] < 1e-5


@pytest.mark.long
def test_tools_watch_a_model_that_was_built_before(ran):
    traffic = ran[1]["traffic/softmax/float32"]
    assert (traffic["read_bytes"], traffic["written_bytes"], traffic["kernels"]) == (1280, 128, 2)
    assert ran[1]["racecheck/softmax/float32"]["told"] == "ERROR SUMMARY: 0 errors"


@pytest.mark.long
def test_a_second_run_goes_on_where_the_first_ended(ran):
    (_, second), _, _ = ran
    assert not second.returncode and "4 of 4 steps" in second.stdout
    assert not second.stderr  # a line a step that is run


@pytest.mark.long
def test_the_tables_have_all_of_it(ran):
    text = ran[2].read_text()
    assert "| softmax/float32 | 1 | 1 | - |" in text
    assert "| softmax/float32 | 4800 | 1280 | 128 | 2 |" in text


def test_no_gpu_is_told_in_one_line():
    done = subprocess.run(
        [sys.executable, "scripts/gpu_suite.py"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "gpu_suite.py: no CUDA device or driver here: try --simulated\n"


def test_another_gpu_begins_anew(tmp_path):
    path = tmp_path / "suite.json"
    made = record.load(path, "one")
    made["steps"]["row/softmax/float32"] = {"bytes": 1}
    record.write(path, made)
    assert record.load(path, "one") == made
    assert not record.load(path, "another")["steps"]


def test_what_ncu_does_not_know_is_no_figure():
    assert tools.dram_bytes("==ERROR== no counters\n") == {}
    assert tools.dram_bytes('"ID","Kernel Name"\n"",""\n"0","one"\n') == {}


def test_a_step_that_failed_is_told():
    made = {"code": "1", "device": "a GPU", "steps": {}}
    made["steps"]["row/softmax/float32"] = {"error": "no kernel", "wrong": True}
    assert "| softmax/float32 | no kernel |" in table.render(made)


def test_steps_are_asked_once():
    keys = [step.key for step in steps()]
    assert len(keys) == len(set(keys))
