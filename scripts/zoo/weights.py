"""Seeded random weights: the same numbers for the ONNX graph and for its NumPy reference."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import ml_dtypes
import numpy as np


def numpy_dtype(name: str) -> np.dtype:
    """Return the NumPy dtype of this name; NumPy has no bfloat16 of its own."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def seeded(
    name: str, shape: Sequence[int], mean: float = 0.0, std: float = 1.0, seed: int = 0
) -> np.ndarray:
    """Return normal float32 numbers that depend on these arguments alone."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    array = rng.standard_normal(tuple(shape), np.float32)
    array *= np.float32(std)
    array += np.float32(mean)
    return array


class Float64Weights:
    """The weights of a subgraph of this dtype, rounded as the graph's are, in float64."""

    def __init__(self, dtype: np.dtype, seed: int = 0) -> None:
        self.dtype, self.seed = dtype, seed

    def __call__(
        self, name: str, shape: Sequence[int], mean: float = 0.0, std: float = 0.02
    ) -> np.ndarray:
        return seeded(name, shape, mean, std, self.seed).astype(self.dtype).astype(np.float64)


def lowest_number(dtype: str) -> float:
    """Return the lowest finite number of a float dtype."""
    return float(ml_dtypes.finfo(numpy_dtype(dtype)).min)
