"""Arrays on their way between processes: .npy files and a list that says which is which.

NumPy writes the types of ml_dtypes as raw bytes and forgets their names, so the list carries the
dtype and such files hold plain unsigned integers. Nothing is ever unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import ml_dtypes
import numpy as np

ALIGNMENT_BYTES = 64


def dtype_of(name: str) -> np.dtype:
    """Return the NumPy dtype of a name such as `float32` or `bfloat16`."""
    return np.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name)


def save(arrays: Mapping[str, np.ndarray], folder: Path, stem: str) -> list[dict[str, str]]:
    """Write arrays to `folder` and return their list, in order, for `load`."""
    rows = []
    for index, (name, array) in enumerate(arrays.items()):
        path = folder / f"{stem}.{index}.npy"
        raw = array.view(f"u{array.itemsize}") if array.dtype.kind == "V" else array
        np.save(path, raw, allow_pickle=False)
        rows.append({"name": name, "dtype": array.dtype.name, "file": str(path)})
    return rows


def load(rows: list[dict[str, str]]) -> dict[str, np.ndarray]:
    """Read what `save` wrote."""
    loaded = {}
    for row in rows:
        raw = np.load(row["file"], allow_pickle=False)
        loaded[row["name"]] = raw.view(dtype_of(row["dtype"]))
    return loaded


def remove(rows: list[dict[str, str]]) -> None:
    """Delete what `save` wrote."""
    for row in rows:
        Path(row["file"]).unlink(missing_ok=True)


def aligned_copy(array: np.ndarray) -> np.ndarray:
    """Return a C-contiguous copy at a multiple of 64 bytes.

    NumPy's own large arrays sit at 16 mod 64, where every vector load of a peer that uses them in
    place would straddle two cache lines.
    """
    room = np.empty(array.nbytes + ALIGNMENT_BYTES, np.uint8)
    start = -room.ctypes.data % ALIGNMENT_BYTES
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    np.copyto(copy, array)
    return copy
