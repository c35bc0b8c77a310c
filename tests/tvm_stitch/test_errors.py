"""Every mistake a user can make: one line on stderr, exit 1, nothing half-written."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import tvm_stitch
from relay_passes.transform import StitchOps
from support.models.runtime import double, gather, onnx_model
from tir_schedules.device import CpuDevice
from tir_schedules.host import host_name
from tvm_stitch import doctor, pipeline
from tvm_stitch.cli import main
from tvm_stitch.runtime import cpu_features


@pytest.fixture
def cli(capfd, tmp_path, monkeypatch):
    """Return a function that runs a command in an empty folder and returns its exit and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str]:
        capfd.readouterr()
        status = main([str(argument) for argument in arguments])
        return status, capfd.readouterr().err

    return run


def _fails(result: tuple[int, str], *told: str) -> None:
    status, stderr = result
    assert status == 1
    assert len(stderr.splitlines()) == 1, stderr
    assert stderr.startswith("tvm-stitch ")
    for part in told:
        assert part in stderr


@pytest.fixture
def model(cli):
    onnx.save(double(), "model.onnx")
    return "model.onnx"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compiled")
    tvm_stitch.compile(gather(), threads=1).export(folder / "gather.so")
    tvm_stitch.compile(double(), threads=1).export(folder / "double.so")
    np.save(folder / "x.npy", np.ones((4, 64), np.float32))
    return folder


def test_a_missing_file(cli):
    _fails(cli("compile", "none.onnx", "-o", "out.so"), "none.onnx")
    assert os.listdir() == []


def test_not_an_onnx_file(cli):
    with open("text.onnx", "w") as file:
        file.write("this is not a model\n" * 10)
    _fails(cli("compile", "text.onnx", "-o", "out.so"), "text.onnx")
    assert os.listdir() == ["text.onnx"]


def test_a_truncated_onnx_file(cli, model):
    with open(model, "r+b") as file:
        file.truncate(os.path.getsize(model) - 5)
    _fails(cli("compile", model, "-o", "out.so"), model)
    assert os.listdir() == [model]


def test_an_unknown_operator_is_named(cli):
    node = helper.make_node("Frobnicate", ["x"], ["y"], domain="my.domain")
    proto = onnx_model([node], [("x", "float32", (2,))], [("y", "float32", (2,))])
    proto.opset_import.append(helper.make_opsetid("my.domain", 1))
    onnx.save(proto, "odd.onnx")
    _fails(cli("compile", "odd.onnx", "-o", "out.so"), "Frobnicate 'y'", "fallback=")
    assert os.listdir() == ["odd.onnx"]


def test_an_unbound_dimension_is_named_with_the_flag_that_sets_it(cli):
    onnx.save(double(shape=("batch", 64)), "open.onnx")
    _fails(cli("compile", "open.onnx", "-o", "out.so"), "batch", "--shape", "x=", "--specialize")
    assert cli("compile", "open.onnx", "-o", "out.so", "--shape", "x=2,64")[0] == 0
    assert sorted(os.listdir()) == ["open.onnx", "out.so"]


@pytest.mark.parametrize(
    ("name", "array", "told"),
    [
        pytest.param("z", np.ones((4, 64), np.float32), "no such input", id="name"),
        pytest.param("x", np.ones((4, 65), np.float32), "shape [4, 65]", id="shape"),
        pytest.param("x", np.ones((4, 64)), "dtype float64", id="dtype"),
        pytest.param("x", np.array([{}]), "not a .npy file", id="pickled"),
    ],
)
def test_a_wrong_input(cli, compiled, name, array, told):
    np.save("in.npy", array, allow_pickle=True)
    _fails(cli("run", compiled / "double.so", "--input", f"{name}=in.npy", "-o", "out"), told)
    assert os.listdir() == ["in.npy"]


def test_a_missing_input(cli, compiled):
    _fails(cli("run", compiled / "double.so"), "input x: missing; give x: float32[4, 64]")


def test_a_missing_or_foreign_input_file(cli, compiled):
    _fails(cli("run", compiled / "double.so", "--input", "x=none.npy"), "none.npy")
    _fails(cli("run", compiled / "double.so", "--input", f"x={compiled}/double.so"), "double.so")


def test_an_index_out_of_range(cli, compiled):
    np.save("ids.npy", np.array([0, 5]))
    _fails(cli("run", compiled / "gather.so", "--input", "ids=ids.npy"), "index 5 is out of range")


@pytest.mark.parametrize("target", ["vax", '{"kind": "llvm", "mcpu": "vax"}', "cuda"])
def test_an_unknown_target_or_cpu(cli, model, target):
    _fails(cli("compile", model, "-o", "out.so", "--target", target), target)
    _fails(cli("explain", model, "--target", target), target)
    assert os.listdir() == [model]


def test_a_file_for_another_cpu(cli, compiled, monkeypatch):
    monkeypatch.setattr(cpu_features, "machine_flags", frozenset)
    told = "built for a CPU with"
    _fails(cli("run", compiled / "double.so", "--input", f"x={compiled}/x.npy"), told)


def test_a_foreign_or_missing_library(cli, compiled):
    _fails(cli("run", compiled / "x.npy"), "not a model that tvm-stitch exported")
    _fails(cli("run", "none.so"), "none.so")


@pytest.mark.parametrize("output", ["no/such/folder/out.so", "."])
def test_an_unwritable_output_is_told_before_any_work(cli, model, output, monkeypatch):
    monkeypatch.setattr(tvm_stitch.build, "import_model", None)
    _fails(cli("compile", model, "-o", output), "cannot be written")
    assert os.listdir() == [model]


def test_a_damaged_library(cli, compiled):
    damaged = bytearray((compiled / "double.so").read_bytes())
    damaged[1000] ^= 1
    Path("damaged.so").write_bytes(damaged)
    _fails(cli("run", "damaged.so", "--input", f"x={compiled}/x.npy"), "the file is damaged: its")
    assert os.listdir() == ["damaged.so"]


def test_an_unwritable_output_folder(cli, compiled):
    command = ["run", compiled / "double.so", "--input", f"x={compiled}/x.npy", "-o"]
    _fails(cli(*command, compiled / "x.npy"), "x.npy")


def test_a_dump_into_a_file_is_refused(cli, model):
    _fails(cli("compile", model, "-o", "out.so", "--dump-ir", model), "File exists", "--dump-ir")
    assert os.listdir() == [model]


def test_no_compiler_is_told_before_any_work(cli, model, monkeypatch):
    monkeypatch.setattr(tvm_stitch.build, "import_model", None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    _fails(cli("compile", model, "-o", "out.so"), "C++ compiler g++: not found")
    monkeypatch.setenv("CXX", "icc-of-yore")
    _fails(cli("compile", model, "-o", "out.so"), "C++ compiler icc-of-yore: not found")
    assert os.listdir() == [model]


def test_a_missing_peer(cli, model, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    _fails(cli("bench", model, "--against", "openvino"), "openvino")


def test_a_log_that_is_none(cli, model):
    _fails(cli("compile", model, "-o", "out.so", "--log", "no.db"), "no.db")
    Path("bad.db").write_text("no database")
    for command in (("compile", model, "-o", "out.so"), ("explain", model), ("advise", model)):
        _fails(cli(*command, "--log", "bad.db"), "bad.db")


def test_a_log_without_the_learner(cli, model, monkeypatch):
    usual = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "xgboost" else usual(name)
    )
    _fails(cli("explain", model, "--log", "a.db"), "pip install 'tvm-stitch[tune]'")


def test_a_profile_that_is_none_or_of_another_machine(cli, model):
    _fails(cli("compile", model, "-o", "out.so", "--profile", "no.json"), "no.json: No such file")
    Path("bad.json").write_text("{}")
    _fails(cli("compile", model, "-o", "out.so", "--profile", "bad.json"), "is missing")
    device = CpuDevice.detect(tvm_stitch.targets.resolve("x86", 1), 1)
    other = dataclasses.replace(device.profile, name="a", mcpu="skylake", vector_bytes=16)
    Path("other.json").write_text(json.dumps(other.to_json()))
    failed = cli("explain", model, "--profile", "other.json")
    _fails(failed, "profile other.json: is of skylake, the target is")
    _fails(failed, "tvm-stitch calibrate -o FILE")


def test_a_profile_of_this_machine_is_used(model, monkeypatch):
    device = CpuDevice.detect(tvm_stitch.targets.resolve("x86", 1), 1)
    mine = dataclasses.replace(
        device.profile,
        name=host_name(), mcpu=device.mcpu, vector_bytes=device.vector_bytes, call_ns=1e9,
    )  # fmt: skip
    Path("mine.json").write_text(json.dumps(mine.to_json()))
    seen = []
    monkeypatch.setattr(pipeline, "StitchOps", lambda *args: seen.append(args) or StitchOps(*args))
    tvm_stitch.explain(model, profile="mine.json")
    assert seen[0][0].profile == mine


@pytest.mark.parametrize(
    "arguments",
    [
        ["compile"],
        ["compile", "model.onnx"],
        ["compile", "model.onnx", "-o", "out.so", "--shape", "x"],
        ["compile", "model.onnx", "-o", "out.so", "--threads", "0"],
        ["run", "out.so", "--input", "x"],
        ["no-such-command"],
        [],
    ],
)
def test_bad_usage_exits_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as exits:
        main(arguments)
    assert exits.value.code == 2


def test_an_unknown_fusion_is_refused():
    with pytest.raises(tvm_stitch.StitchError, match=r"fusion 'all': unknown; use one of stitch"):
        tvm_stitch.compile(double(), fusion="all")


def test_the_commands_work_in_a_process_of_their_own(tmp_path):
    onnx.save(double(), tmp_path / "m.onnx")
    x = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "tvm_stitch.cli", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
        ).stdout

    assert run("compile", "m.onnx", "-o", "m.so").startswith("m.so: ")
    run("run", "m.so", "--input", "x=x.npy", "-o", "out")
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "y.npy"), 2 * x)


def test_doctor_finds_what_is_broken(cli, capfd, monkeypatch):
    assert cli("doctor")[0] == 0
    monkeypatch.setenv("CXX", "icc-of-yore")
    assert main(["doctor"]) == 1
    assert "icc-of-yore" in capfd.readouterr().out


def test_doctor_names_a_mismatched_pair(monkeypatch):
    installed = {"apache-tvm": doctor.TVM_VERSION, "apache-tvm-ffi": "0.1.15"}
    monkeypatch.setattr(doctor, "_version", lambda package: installed.get(package, "1.0"))
    pair = {finding.what: finding for finding in doctor.examine()}
    assert pair["apache-tvm"].state == "ok"
    assert pair["apache-tvm-ffi"].state == "broken"
    assert "0.1.15, but it must be 0.1.14.post1: pip install" in pair["apache-tvm-ffi"].found
