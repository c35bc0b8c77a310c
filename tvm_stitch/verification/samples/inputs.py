"""Inputs to verify a model on: random ones, or arrays from files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tvm_stitch.array_files import file_name, read_array
from tvm_stitch.runtime.artifact import Meta, Tensor
from tvm_stitch.runtime.dtypes import numpy_dtype

_FLAGS = (0, 1)  # what integers are that index nothing: masks, above all


def random_inputs(meta: Meta, seed: int) -> dict[str, np.ndarray]:
    """Return standard normal floats, and integers within the bounds that indices have."""
    rng = np.random.default_rng(seed)
    return {spec.name: _random(rng, spec, meta.index_bounds.get(spec.name)) for spec in meta.inputs}


def _random(rng: np.random.Generator, spec: Tensor, bounds: tuple[int, int] | None) -> np.ndarray:
    dtype = numpy_dtype(spec.dtype)
    if dtype.kind in "fV":
        return rng.standard_normal(spec.shape, np.float32).astype(dtype)
    low, high = bounds or _FLAGS
    return rng.integers(min(max(low, 0), high), high, spec.shape, endpoint=True).astype(dtype)


def read_inputs(folder: Path, meta: Meta) -> dict[str, np.ndarray]:
    """Return the arrays of NAME.npy in a folder, for each input, as `tvm-stitch run -o` names them.

    Raises: StitchError for a file that is missing or no array; the model refuses other misfits.
    """
    return {spec.name: read_array(folder / file_name(spec.name), spec.name) for spec in meta.inputs}


def given_inputs(given: Mapping[str, np.ndarray] | Path | None, meta: Meta, seed: int) -> dict:
    """Return arrays as they are given, from a folder, or random ones."""
    if given is None:
        return random_inputs(meta, seed)
    return read_inputs(given, meta) if isinstance(given, Path) else dict(given)
