"""The exported file: what it holds, who can load it, and that it is written whole or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import tvm_stitch
from support.models.runtime import double, gather, linear, linear_reference, onnx_model
from tvm_stitch.errors import StitchError
from tvm_stitch.runtime import artifact, cpu_features

PLAIN_TVM = """
import sys
import numpy as np
import tvm.runtime
from tvm import relax

library = tvm.runtime.load_module(sys.argv[1])
machine = relax.VirtualMachine(library, tvm.cpu())
result = machine["main"](tvm.runtime.tensor(np.load(sys.argv[2])))
np.save(sys.argv[3], result.numpy())
print(library.get_function("tvm_stitch_meta", query_imports=True)())
assert "tvm_stitch" not in sys.modules
"""


@pytest.fixture(scope="module")
def proto():
    return linear()


@pytest.fixture(scope="module")
def model(proto):
    return tvm_stitch.compile(proto[0], threads=2)


@pytest.fixture
def exported(model, tmp_path):
    path = tmp_path / "model.so"
    model.export(path)
    return path


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(3).standard_normal((4, 64)).astype(np.float32)


def test_a_loaded_model_is_the_compiled_one(model, exported, x):
    loaded = tvm_stitch.load(exported)
    np.testing.assert_array_equal(loaded.run({"input.1": x})["y"], model.run({"input.1": x})["y"])
    assert loaded.meta == model.meta
    assert loaded.report == model.report
    assert loaded.meta.threads == 2


def test_plain_tvm_loads_the_file_alone(exported, proto, x, tmp_path):
    np.save(tmp_path / "x.npy", x)
    script = [sys.executable, "-c", PLAIN_TVM, exported, tmp_path / "x.npy", tmp_path / "y.npy"]
    done = subprocess.run(script, capture_output=True, text=True, check=True)
    y = np.load(tmp_path / "y.npy")
    np.testing.assert_allclose(y, linear_reference(x, proto[1]), rtol=1e-5, atol=1e-5)
    meta = json.loads(done.stdout)
    assert meta["inputs"] == [{"name": "input.1", "shape": [4, 64], "dtype": "float32"}]
    assert {"format", "outputs", "threads", "cpu_features", "tvm_version", "report"} <= meta.keys()


def test_a_loaded_model_exports_again_and_outlives_its_file(exported, proto, x, tmp_path):
    again = tmp_path / "again.so"
    loaded = tvm_stitch.load(exported)
    loaded.export(again)
    assert again.read_bytes() == exported.read_bytes()
    exported.unlink()
    np.testing.assert_allclose(
        loaded.run({"input.1": x})["y"], linear_reference(x, proto[1]), rtol=1e-5, atol=1e-5
    )


def test_a_file_replaced_since_is_loaded_anew(tmp_path, x):
    path = tmp_path / "model.so"
    for seed in (1, 2):
        proto, weights = linear(seed=seed)
        tvm_stitch.compile(proto, threads=1).export(path)
        got = tvm_stitch.load(path).run({"input.1": x})["y"]
        np.testing.assert_allclose(got, linear_reference(x, weights), rtol=1e-5, atol=1e-5)


def test_a_file_loaded_twice_runs_twice(exported, x):
    first, second = tvm_stitch.load(exported), tvm_stitch.load(exported)
    expected = first.run({"input.1": x})["y"]
    del first
    np.testing.assert_array_equal(second.run({"input.1": x})["y"], expected)


def test_index_bounds_travel_with_the_file(tmp_path):
    tvm_stitch.compile(gather(), threads=1).export(tmp_path / "model.so")
    with pytest.raises(StitchError, match="index 9 is out of range"):
        tvm_stitch.load(tmp_path / "model.so").run({"ids": np.array([0, 9])})


def test_a_weight_used_twice_is_in_the_file_once(tmp_path):
    weight = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32)
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["a"]),
        onnx.helper.make_node("MatMul", ["a", "w"], ["y"]),
    ]
    edges = [("x", "float32", (2, 512))], [("y", "float32", (2, 512))]
    model = tvm_stitch.compile(onnx_model(nodes, *edges, weights={"w": weight}), threads=1)
    model.export(tmp_path / "model.so")
    assert (tmp_path / "model.so").stat().st_size <= 1.2 * weight.nbytes


def test_a_model_without_weights_travels_too(tmp_path, x):
    tvm_stitch.compile(double(), threads=1).export(tmp_path / "model.so")
    np.testing.assert_array_equal(tvm_stitch.load(tmp_path / "model.so").run({"x": x})["y"], 2 * x)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda image: b"\x7fELF" + bytes(4096), id="another-library"),
        pytest.param(lambda image: b"", id="empty"),
        pytest.param(lambda image: image[: len(image) // 2], id="truncated"),
        pytest.param(lambda image: image[:-24] + b"\xff" * 16 + image[-8:], id="bad-footer"),
        pytest.param(lambda image: b"onnx", id="text"),
    ],
)
def test_a_foreign_file_is_refused_without_loading_it(exported, damage):
    exported.write_bytes(damage(exported.read_bytes()))
    with pytest.raises(StitchError, match="not a model that tvm-stitch exported"):
        tvm_stitch.load(exported)


def test_a_newer_format_is_refused(model, tmp_path, monkeypatch):
    with monkeypatch.context() as newer:
        newer.setattr(artifact, "FORMAT", 99)
        model.export(tmp_path / "model.so")
    with pytest.raises(StitchError, match="file format 99, newer than 3"):
        tvm_stitch.load(tmp_path / "model.so")


def test_a_file_for_another_cpu_is_refused(exported, monkeypatch):
    monkeypatch.setattr(cpu_features, "machine_flags", lambda: frozenset({"sse4_1"}))
    with pytest.raises(StitchError, match=r"built for a CPU with .*avx2"):
        tvm_stitch.load(exported)


def test_a_model_for_another_cpu_compiles_but_does_not_run(proto, x, monkeypatch, tmp_path):
    flags = cpu_features.machine_flags() - {"avx2"}
    monkeypatch.setattr(cpu_features, "machine_flags", lambda: flags)
    model = tvm_stitch.compile(proto[0], target="x86-64-v3")
    model.export(tmp_path / "model.so")
    for call in (lambda: model.run({"input.1": x}), lambda: model(x)):
        with pytest.raises(StitchError, match="built for a CPU with avx2"):
            call()


def test_a_failed_export_leaves_what_was_there(model, tmp_path, monkeypatch):
    path = tmp_path / "model.so"
    path.write_text("before")
    full = OSError(28, "No space left on device")
    with pytest.raises(StitchError, match="no space left on device"), artifact.atomically(path):
        raise full
    with pytest.raises(KeyError):
        artifact.write(path, b"", model.meta, [np.zeros(1), np.array(["no such dtype"])])
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["model.so"]


@pytest.mark.parametrize("where", ["no/such/folder/model.so", "."])
def test_an_output_that_cannot_be_written_is_told(model, tmp_path, where):
    with pytest.raises(StitchError, match="cannot be written"):
        model.export(tmp_path / where)
    with pytest.raises(StitchError, match="cannot be written"):
        artifact.check_writable(tmp_path / where)
    assert os.listdir(tmp_path) == []


def test_an_output_that_is_no_regular_file_is_told_and_stays(model, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "device").symlink_to("/dev/null")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("no/such/folder/model.so")
    before = {path: path.lstat() for path in tmp_path.iterdir()}
    for path in before:
        with pytest.raises(StitchError, match="cannot be written"):
            artifact.check_writable(path)
        with pytest.raises(StitchError, match="cannot be written"):
            model.export(path)
    assert {path: path.lstat() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("there", [True, False])
def test_a_link_to_a_file_stays_and_the_file_is_written(model, tmp_path, there):
    (tmp_path / "elsewhere").mkdir()
    file, link = tmp_path / "elsewhere/model.so", tmp_path / "link.so"
    if there:
        file.write_text("before")
    link.symlink_to("elsewhere/model.so")
    artifact.check_writable(link)
    model.export(link)
    assert link.is_symlink()
    assert not file.is_symlink()
    assert tvm_stitch.load(file).meta == tvm_stitch.load(link).meta == model.meta


def test_a_file_may_be_named_without_a_folder(model, tmp_path, monkeypatch, x):
    monkeypatch.chdir(tmp_path)
    model.export("model.so")
    assert tvm_stitch.load("model.so").run({"input.1": x})["y"].shape == (4, 64)
    assert Path("model.so").stat().st_mode & 0o444


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_file_has_the_rights_of_any_new_file_and_the_umask_stays(
    model, tmp_path, monkeypatch, umask, mode
):
    before = os.umask(umask)
    try:
        with monkeypatch.context() as racing:
            racing.delattr(os, "umask")  # other threads create files while it is set
            model.export(tmp_path / "model.so")
    finally:
        os.umask(before)
    assert (tmp_path / "model.so").stat().st_mode & 0o777 == mode
