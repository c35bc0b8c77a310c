"""A model keeps nothing of its files, damaged ones are told, and dropped models leave nothing."""

from __future__ import annotations

import gc
import os
import random
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import onnx
import pytest

import tvm_stitch
from support.kernels import memory
from support.models.runtime import double, linear, linear_reference
from tvm_stitch.errors import StitchError
from tvm_stitch.runtime.artifact import FOOTER, HEADER, WEIGHT

X = np.random.default_rng(3).standard_normal((4, 256)).astype(np.float32)
PROTO, WEIGHTS = linear(columns=256)
EXPECTED = linear_reference(X, WEIGHTS)

PLAIN_TVM = """
import gc
import sys
import numpy as np
import tvm.runtime
import tvm_ffi
from tvm import relax

other, path, x, y, w = sys.argv[1:]
pool = tvm_ffi.load_module(other)  # the first library stays
for last in (False, True):
    library = tvm_ffi.load_module(path, keep_module_alive=False)
    weights = library.get_function("tvm_stitch_weights", query_imports=True)()
    machine = relax.VirtualMachine(library, tvm.cpu())
    if last:
        with open(path, "r+b") as file:
            file.truncate(file.seek(0, 2) - 200_000)  # of the weights, not the code
    np.save(y, machine["main"](tvm.runtime.tensor(np.load(x))).numpy())
    del machine, library
    gc.collect()
    assert path not in open("/proc/self/maps").read()
np.save(w, np.concatenate([weight.numpy().reshape(-1) for weight in weights]))
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    path = tmp_path_factory.mktemp("stored") / "model.so"
    tvm_stitch.compile(PROTO, threads=2).export(path)
    return path.read_bytes()


@pytest.fixture
def exported(image, tmp_path):
    path = tmp_path / "model.so"
    path.write_bytes(image)
    return path


def assert_right(model):
    np.testing.assert_allclose(model.run({"input.1": X})["y"], EXPECTED, rtol=1e-4, atol=1e-4)


def places(image: bytes) -> tuple[int, int]:
    """Return where the weights and the bundle begin."""
    start, length, _ = FOOTER.unpack(image[-FOOTER.size :])
    count = HEADER.unpack_from(image, start)[4]
    at = start + length - count * WEIGHT.size
    return min(WEIGHT.unpack_from(image, at + i * WEIGHT.size)[0] for i in range(count)), start


def test_no_damage_goes_unseen_or_kills(exported, image):
    weights, bundle = places(image)
    rng = random.Random(0)
    chosen = [*rng.sample(range(weights), 60), *rng.sample(range(bundle, len(image)), 60)]
    for at in (*chosen, bundle + 12, bundle + 16, bundle + 24, len(image) - 24, len(image) - 16):
        damaged = bytearray(image)
        damaged[at] ^= 1 << rng.randrange(8)
        exported.write_bytes(damaged)
        with pytest.raises(StitchError) as raised:
            tvm_stitch.load(exported)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        pytest.param(0, 1 << 62, "weight 0 lies at bytes", id="address"),
        pytest.param(0, 100, "weight 0 lies at bytes", id="alignment"),
        pytest.param(1, 9, "unknown dtype", id="dtype"),
        pytest.param(3, 2, "unknown dtype", id="lanes"),
        pytest.param(4, 17, "17 axes", id="rank"),
        pytest.param(5, -1, "axes of [-1", id="negative"),
        pytest.param(5, 1 << 62, "weight 0 lies at bytes", id="extent"),
        pytest.param(21, 0, "weight 0 is made of weight 0", id="made-of-itself"),
        pytest.param(21, -2, "weight 0 is made of weight", id="kernel"),
    ],
)
def test_a_record_that_cannot_be_is_named(exported, image, field, value, told):
    _, bundle = places(image)
    _, length, _ = FOOTER.unpack(image[-FOOTER.size :])
    at = bundle + length - HEADER.unpack_from(image, bundle)[4] * WEIGHT.size
    record = [*WEIGHT.unpack_from(image, at)]
    record[field] = value
    damaged = bytearray(image)
    WEIGHT.pack_into(damaged, at, *record)
    exported.write_bytes(damaged)
    with pytest.raises(StitchError, match=r"the file is damaged: ") as raised:
        tvm_stitch.load(exported)
    assert told in str(raised.value)


def test_an_older_format_is_refused(exported, image):
    _, bundle = places(image)
    exported.write_bytes(image[: bundle + 8] + b"\2" + image[bundle + 9 :])
    with pytest.raises(StitchError, match="file format 2, older than 3; compile the model again"):
        tvm_stitch.load(exported)


def test_code_that_no_loader_takes_is_told(exported, image):
    weights, bundle = places(image)
    damaged = bytearray(image)
    damaged[:4] = b"\x7fELV"
    tail = damaged[bundle : -FOOTER.size]
    seen = zlib.crc32(tail[: HEADER.size - 8], zlib.crc32(damaged[:weights]))
    seen = zlib.crc32(tail[HEADER.size :], seen)
    damaged[bundle + HEADER.size - 8 : bundle + HEADER.size] = seen.to_bytes(8, "little")
    exported.write_bytes(damaged)
    with pytest.raises(StitchError, match=r"its code cannot be loaded .*invalid ELF header"):
        tvm_stitch.load(exported)


def rewrite(path: Path) -> None:
    path.write_bytes(b"\xff" * path.stat().st_size)


@pytest.mark.parametrize("change", [rewrite, lambda path: os.truncate(path, 0), Path.unlink])
def test_a_loaded_model_outlives_a_change_of_its_file(exported, change):
    def work() -> None:
        model = tvm_stitch.load(exported)
        change(exported)
        assert_right(model)
        model.export(exported)
        assert_right(tvm_stitch.load(exported))

    assert memory.in_child(work) == 0


def test_a_file_rewritten_in_place_is_loaded_anew(exported):
    first = tvm_stitch.load(exported)
    tvm_stitch.compile(double(shape=(4, 256)), threads=1).export(exported.with_name("other.so"))
    with exported.open("r+b") as file:
        file.write(exported.with_name("other.so").read_bytes())
        file.truncate()
    np.testing.assert_array_equal(tvm_stitch.load(exported).run({"x": X})["y"], 2 * X)
    assert_right(first)


@pytest.mark.parametrize("external", [True, False], ids=["external", "inline"])
def test_a_compiled_model_outlives_a_change_of_the_onnx_files(tmp_path, external):
    def work() -> None:
        path = tmp_path / "model.onnx"
        onnx.save(PROTO, path, save_as_external_data=external, location="data", size_threshold=0)
        model = tvm_stitch.compile(path, threads=1)
        for file in tmp_path.iterdir():
            rewrite(file)
        assert_right(model)
        for file in tmp_path.iterdir():
            os.truncate(file, 0)
        assert_right(model)

    assert memory.in_child(work) == 0


def test_a_compiled_model_outlives_a_change_of_the_module():
    torch = pytest.importorskip("torch")
    table = torch.nn.Embedding(64, 64)
    ids = torch.arange(8)
    expected = table(ids).detach().numpy().copy()
    model = tvm_stitch.compile(torch.export.export(table, (ids,)), threads=1)
    with torch.no_grad():
        table.weight.fill_(float("nan"))
    np.testing.assert_array_equal(torch.from_dlpack(model(ids)).numpy(), expected)


def _maps() -> int:
    gc.collect()
    return len(Path("/proc/self/maps").read_text().splitlines())


def test_models_that_are_dropped_leave_no_mapping(exported):
    kept = []

    def use() -> None:
        model = tvm_stitch.load(exported)
        kept.append(model.run({"input.1": X})["y"])

    tvm_stitch.compile(double(), threads=1)  # the pool's library, which stays
    for _ in range(3):
        use()
    before = _maps()
    for _ in range(10):
        use()
    assert _maps() <= before + 2  # what malloc maps for the results
    np.testing.assert_allclose(kept, [EXPECTED] * 13, rtol=1e-4, atol=1e-4)


def test_plain_tvm_copies_weights_and_gives_them_back(exported, tmp_path):
    np.save(tmp_path / "x.npy", X)
    shutil.copy(exported, tmp_path / "other.so")
    files = [tmp_path / name for name in ("other.so", "model.so", "x.npy", "y.npy", "w.npy")]
    subprocess.run([sys.executable, "-c", PLAIN_TVM, *files], check=True)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), EXPECTED, rtol=1e-4, atol=1e-4)
    stored = np.load(tmp_path / "w.npy")
    np.testing.assert_array_equal(np.sort(stored[stored != 0]), np.sort(WEIGHTS.reshape(-1)))
