"""A model's shared library in this process, from a compilation or from a file."""

from __future__ import annotations

import ctypes
import functools
import os
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import tvm_ffi

from tvm_stitch.errors import StitchError
from tvm_stitch.runtime import artifact
from tvm_stitch.runtime.artifact import Meta, Prepared
from tvm_stitch.runtime.linking.link import link
from tvm_stitch.runtime.model import Model
from tvm_stitch.runtime.shaped_model import ShapedModel
from tvm_stitch.runtime.stored import Stored, read


@dataclass(eq=False)
class Library:
    """A loaded library and what it was made of: it borrows the weights, and prepares others."""

    module: tvm_ffi.Module
    stored: Stored

    def __post_init__(self) -> None:
        release = self.module.get_function("tvm_stitch_release", query_imports=True)
        # Not when the process exits: a thread may still run the model then.
        weakref.finalize(self, release).atexit = False
        stored = self.stored
        addresses = [weight.__array_interface__["data"][0] for weight in stored.weights]
        bundle = artifact.bundle(stored.meta, stored.weights, addresses, stored.prepared)
        buffer = ctypes.create_string_buffer(bundle, len(bundle))
        bind = self.module.get_function("tvm_stitch_bind", query_imports=True)
        bind(ctypes.addressof(buffer), len(bundle))

    def model(self) -> Model | ShapedModel:
        stored = self.stored
        save = functools.partial(
            artifact.write,
            library=stored.library,
            meta=stored.meta,
            weights=stored.weights,
            prepared=stored.prepared,
        )
        kind = Model
        if stored.meta.arch:
            from tvm_stitch.runtime.gpu_model import GpuModel

            kind = GpuModel
        metas = (stored.meta, *stored.meta.others)
        models = [kind(self, meta, save) for meta in metas]
        return models[0] if len(models) == 1 else ShapedModel(models)


# A file loaded twice, and not written to between, is in memory once.
_loaded: WeakValueDictionary[tuple[int, ...], Library] = WeakValueDictionary()


def from_executable(
    executable: Any,
    meta: Meta,
    weights: Sequence[np.ndarray],
    prepared: Sequence[Prepared] = (),
    kernels: Sequence[Path] = (),
) -> Model | ShapedModel:
    """Link a `tvm.compile` result, load it, and lend it the weights where they are.

    `kernels` are objects of what it has not.
    """
    with tempfile.TemporaryDirectory(prefix="tvm-stitch-") as folder:
        path = Path(folder) / "model.so"
        link(executable, path, kernels)
        stored = Stored(meta, path.read_bytes(), _on_lines(weights), tuple(prepared))
        return Library(_open(path), stored).model()


def _on_lines(weights: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the weights from a cache line on each, as in a file; those that were one still are.

    A register that straddles two lines is two loads.
    """
    # All of them at once: an address tells arrays apart only as long as they live.
    weights = [np.require(weight, requirements=["C", "A"]) for weight in weights]
    placed: dict[tuple[int, int], np.ndarray] = {}
    out = []
    for weight in weights:
        key = (weight.__array_interface__["data"][0], weight.nbytes)
        if key not in placed:
            placed[key] = _aligned(weight)
        out.append(placed[key].view(weight.dtype).reshape(weight.shape))
    return out


def _aligned(weight: np.ndarray) -> np.ndarray:
    """Return the bytes of an array, copied if they do not begin a cache line or are lent."""
    raw = weight.reshape(-1).view(np.uint8)
    skip = -weight.__array_interface__["data"][0] % artifact.ALIGN_BYTES
    if skip == 0 and not _is_lent(weight):
        return raw
    room = np.empty(weight.nbytes + artifact.ALIGN_BYTES, np.uint8)
    start = -room.__array_interface__["data"][0] % artifact.ALIGN_BYTES
    copy = room[start : start + weight.nbytes]
    copy[:] = raw
    return copy


def _is_lent(array: np.ndarray) -> bool:
    """Return whether others may change an array while the model lives: a file, or a PyTorch module.

    What NumPy allocated was made by the import.
    """
    root = array
    while isinstance(root, np.ndarray) and root.base is not None:
        root = root.base
    return not isinstance(root, (np.ndarray, bytes))


def load(path: str | os.PathLike) -> Model | ShapedModel:
    """Load a model that `Model.export` wrote; its file may change or vanish afterwards.

    Raises: StitchError if the file is missing, foreign, damaged, of another format, or for another
    CPU.
    """
    path = Path(path)
    library = _loaded.get(key := _identity(path))
    if library is None:
        library = _loaded[key] = _load(path)
    return library.model()


def _load(path: Path) -> Library:
    stored = read(path)
    if stored.meta.arch:
        from tvm_stitch.runtime.gpu_driver import load_runtime

        load_runtime()
    # Code of the file itself would change with it.
    with tempfile.TemporaryDirectory(prefix="tvm-stitch-") as folder:
        image = Path(folder) / "model.so"
        image.write_bytes(stored.library)
        try:
            module = _open(image)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            remedy = "compile the model again on this machine"
            raise StitchError(path, f"its code cannot be loaded ({reason})", remedy) from None
    return Library(module, stored)


def _identity(path: Path) -> tuple[int, ...]:
    """Return what changes when a file is replaced or written to."""
    try:
        about = path.stat()
    except OSError as error:
        raise StitchError(path, error.strerror or str(error), "check the path") from None
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def _open(path: Path) -> tvm_ffi.Module:
    return tvm_ffi.load_module(path, keep_module_alive=False)
