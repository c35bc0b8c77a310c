"""A model's shared library in this process, from a compilation or from a file."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import tvm_ffi

from tvm_stitch.errors import StitchError
from tvm_stitch.runtime import artifact
from tvm_stitch.runtime.artifact import Meta, Prepared
from tvm_stitch.runtime.link import link
from tvm_stitch.runtime.model import Model


@dataclass(eq=False)
class Library:
    """A loaded library and the weights it has only borrowed; those it prepares go with it."""

    module: tvm_ffi.Module
    weights: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.module.implements_function("tvm_stitch_release", query_imports=True):
            release = self.module.get_function("tvm_stitch_release", query_imports=True)
            # Not when the process exits: a thread may still run the model then.
            weakref.finalize(self, release).atexit = False


# The loader gives one file one place in memory, and a library knows one module: a file loaded
# twice shares both. Keyed on (device, inode).
_loaded: WeakValueDictionary[tuple[int, int], Library] = WeakValueDictionary()


def from_executable(
    executable: Any,
    meta: Meta,
    weights: Sequence[np.ndarray],
    prepared: Sequence[Prepared] = (),
) -> Model:
    """Link a `tvm.compile` result, load it, and lend it the weights where they are."""
    weights = _on_lines(weights)
    with tempfile.TemporaryDirectory(prefix="tvm-stitch-") as folder:
        path = Path(folder) / "model.so"
        link(executable, path)
        image = path.read_bytes()
        library = Library(_open(path), weights)
    addresses = [weight.__array_interface__["data"][0] for weight in weights]
    bundle = artifact.bundle(meta, weights, addresses, prepared)
    buffer = ctypes.create_string_buffer(bundle, len(bundle))
    bind = library.module.get_function("tvm_stitch_bind", query_imports=True)
    bind(ctypes.addressof(buffer), len(bundle))
    save = functools.partial(
        artifact.write, library=image, meta=meta, weights=weights, prepared=prepared
    )
    return Model(library, meta, save)


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
    """Return the bytes of an array, copied if they do not begin a cache line."""
    raw = weight.reshape(-1).view(np.uint8)
    skip = -weight.__array_interface__["data"][0] % artifact.ALIGN_BYTES
    if skip == 0:
        return raw
    room = np.empty(weight.nbytes + artifact.ALIGN_BYTES, np.uint8)
    start = -room.__array_interface__["data"][0] % artifact.ALIGN_BYTES
    copy = room[start : start + weight.nbytes]
    copy[:] = raw
    return copy


def load(path: str | os.PathLike) -> Model:
    """Load a model that `Model.export` wrote.

    Raises: StitchError if the file is missing, foreign, newer, or for another CPU.
    """
    path = Path(path)
    meta = artifact.read_meta(path)
    about = path.stat()
    key = (about.st_dev, about.st_ino)
    library = _loaded.get(key)
    if library is None:
        # A name used before would give the file that had it then, replaced since or not.
        with tempfile.TemporaryDirectory(prefix="tvm-stitch-") as folder:
            link_path = Path(folder) / "model.so"
            link_path.symlink_to(path.resolve())
            library = _loaded[key] = Library(_open(link_path))
    return Model(library, meta, functools.partial(_copy, source=path.resolve()))


def _open(path: Path) -> tvm_ffi.Module:
    return tvm_ffi.load_module(path, keep_module_alive=False)


def _copy(path: Path, source: Path) -> None:
    if path.resolve() == source:
        return
    try:
        original = source.open("rb")
    except OSError as error:
        raise StitchError(source, f"the loaded file: {error.strerror}", "keep it") from None
    with original, artifact.atomically(path) as file:
        shutil.copyfileobj(original, file)
