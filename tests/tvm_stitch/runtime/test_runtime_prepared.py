"""Weights that are made when a model is loaded: right, made once, reported, and not in the file."""

from __future__ import annotations

import dataclasses
import json
import struct
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm_ffi
from zoo.graph import Graph

import tvm_stitch
from support.kernels import stitch_case as sc
from support.models.runtime import convolution
from tvm_stitch.runtime import artifact, cpu_features
from tvm_stitch.runtime.model import Model

PLAIN_TVM = """
import sys
import numpy as np
import tvm.runtime
from tvm import relax

library = tvm.runtime.load_module(sys.argv[1])
run = relax.VirtualMachine(library, tvm.cpu())["main"]
x = tvm.runtime.tensor(np.load(sys.argv[2]))
first = run(x).numpy()
np.save(sys.argv[3], first)
assert np.array_equal(run(x).numpy(), first)
assert "tvm_stitch" not in sys.modules
"""


def tied() -> onnx.ModelProto:
    """Return the product of rows of an embedding's table with its transpose."""
    g = Graph("tied")
    w = g.weight("w", (1024, 256))
    x = g.op("Gather", w, g.input("ids", (20,), "int64", below=1024))
    y = g.op("MatMul", g.op("Tanh", x), g.op("Transpose", w, perm=[1, 0]))
    g.output(y, "y", (20, 1024))
    return g.model()


def reference(model: onnx.ModelProto, inputs: dict) -> np.ndarray:
    (y,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    return y


def exported(model: onnx.ModelProto, path: Path) -> Model:
    made = tvm_stitch.compile(model, threads=2)
    made.export(path)
    return made


@pytest.mark.parametrize("model", [convolution(), tied()], ids=["transformed", "second-layout"])
def test_a_loaded_model_prepares_its_weights(model, tmp_path):
    inputs = sc.zoo.random_inputs(model)
    made = exported(model, tmp_path / "m.so")
    y = tvm_stitch.load(tmp_path / "m.so").run(inputs)["y"]
    assert np.array_equal(y, made.run(inputs)["y"])
    sc.assert_close({"y": y}, {"y": reference(model, inputs).astype("f8")}, 1e-5)
    (weight,) = (onnx.numpy_helper.to_array(each) for each in model.graph.initializer)
    assert (tmp_path / "m.so").stat().st_size <= 1.2 * weight.nbytes
    assert made.report.weight_bytes == weight.nbytes
    assert made.report.resident_weight_bytes >= 2 * weight.nbytes
    assert "with those prepared when it is loaded" in str(made.report)
    assert json.loads(made.meta.to_json())["report"]["resident_weight_bytes"] > weight.nbytes


def test_plain_tvm_prepares_them_too(tmp_path):
    model = convolution()
    x = sc.zoo.random_inputs(model)["x"]
    made = exported(model, tmp_path / "m.so")
    np.save(tmp_path / "x.npy", x)
    files = [tmp_path / name for name in ("m.so", "x.npy", "y.npy")]
    subprocess.run([sys.executable, "-c", PLAIN_TVM, *files], check=True)
    assert np.array_equal(np.load(tmp_path / "y.npy"), made.run({"x": x})["y"])


def test_results_are_the_same_for_any_number_of_threads():
    model = convolution()
    inputs = sc.zoo.random_inputs(model)
    one, two = (tvm_stitch.compile(model, threads=n).run(inputs)["y"] for n in (1, 2))
    assert np.array_equal(one, two)


@pytest.mark.long
def test_two_models_in_a_process_prepare_their_own(tmp_path):
    models = [convolution(seed=1), convolution(64, seed=2), convolution(seed=3)]
    for number, model in enumerate(models):
        exported(model, tmp_path / f"{number}.so")
    loaded = [tvm_stitch.load(tmp_path / f"{number}.so") for number in range(len(models))]
    for model, ours in zip(models, loaded, strict=True):
        inputs = sc.zoo.random_inputs(model)
        expected = reference(model, inputs).astype("f8")
        sc.assert_close(ours.run(inputs), {"y": expected}, 1e-5)


def test_threads_that_ask_at_once_get_the_same_weights(tmp_path):
    exported(convolution(), tmp_path / "m.so")
    module = tvm_ffi.load_module(tmp_path / "m.so")
    ask = module.get_function("tvm_stitch_weights", query_imports=True)
    start, found = threading.Barrier(4), []

    def first() -> None:
        start.wait()
        found.append([np.from_dlpack(weight).ctypes.data for weight in ask()])

    threads = [threading.Thread(target=first) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [found[0]] * 4
    assert found[0][1] % artifact.ALIGN_BYTES == 0


def test_a_model_that_is_dropped_gives_its_prepared_weights_back(tmp_path):
    model = convolution()
    inputs = sc.zoo.random_inputs(model)
    exported(model, tmp_path / "m.so")
    ours = tvm_stitch.load(tmp_path / "m.so")
    first, module = ours.run(inputs)["y"], ours._library.module
    ask = module.get_function("tvm_stitch_weights", query_imports=True)
    held = ask()
    del ours
    assert not ask().same_as(held)
    del held
    assert np.array_equal(tvm_stitch.load(tmp_path / "m.so").run(inputs)["y"], first)


@pytest.mark.long(every=6)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"kernel": 1}, "no function for a prepared weight", id="no-such-function"),
        pytest.param({"kernel": 2**31 - 1}, "no function for a prepared weight", id="far-function"),
        pytest.param({"source": 1}, "weight 1 is made of weight 1", id="made-of-itself"),
        pytest.param({"source": 2**32 - 1}, "weight 1 is made of", id="made-of-none"),
        pytest.param({"shape": (6, 6, 4, 128)}, "ndim", id="rank"),
        pytest.param({"shape": (6, 6, 4, 128, 31)}, "compact", id="extent"),
        pytest.param({"shape": (-6, 6, 4, 128, 32)}, "axes of", id="negative"),
        pytest.param({"shape": (2**62, 2, 4, 128, 32)}, "no bundle", id="overflow"),
        pytest.param({"shape": (2**40, 6, 4, 128, 32)}, "no memory", id="huge"),
        pytest.param({"dtype": "float64"}, "dtype", id="dtype"),
    ],
)
def test_a_broken_record_is_an_error(change, message, tmp_path):
    save = exported(convolution(), tmp_path / "m.so")._save
    (prepared,) = save.keywords["prepared"]
    save(tmp_path / "m.so", prepared=[dataclasses.replace(prepared, **change)])
    with pytest.raises(Exception, match=message):
        tvm_stitch.load(tmp_path / "m.so")


@pytest.mark.parametrize(("at", "message"), [(0, "lies at bytes"), (12, "axes of")])
def test_a_record_beyond_the_file_is_an_error(at, message, tmp_path):
    exported(convolution(), tmp_path / "m.so")
    image = bytearray((tmp_path / "m.so").read_bytes())
    record = len(image) - 24 - 2 * 152
    image[record + at : record + at + 4] = struct.pack("<i", 2**31 - 1)
    (tmp_path / "m.so").write_bytes(image)
    with pytest.raises(tvm_stitch.StitchError, match=message):
        tvm_stitch.load(tmp_path / "m.so")


def test_a_model_for_another_cpu_prepares_nothing(tmp_path, monkeypatch):
    flags = cpu_features.machine_flags() - {"avx2"}
    monkeypatch.setattr(cpu_features, "machine_flags", lambda: flags)
    model = tvm_stitch.compile(tied(), target="x86-64-v3")
    assert model.report.resident_weight_bytes > model.report.weight_bytes
    assert not model._weight_pointers
