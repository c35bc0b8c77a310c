"""What a model should give, and how far from it a compiled one is."""

from __future__ import annotations

import copy

import numpy as np
import torch

from wild.architecture import Example


def reference(example: Example) -> list[np.ndarray]:
    """Return the outputs of the module in float64, or in float32 where its code needs that."""
    plain = eager(example)
    try:
        exact = _outputs(copy.deepcopy(example.module).double(), example, torch.float64)
    except RuntimeError:  # constants of float32, or operators without float64, in its code
        return plain
    overflows = any(
        (np.isfinite(p) > np.isfinite(e)).any() for p, e in zip(plain, exact, strict=True)
    )
    return plain if overflows else exact  # masks of the least float64, added up


def eager(example: Example) -> list[np.ndarray]:
    """Return what the module itself gives in float32."""
    return _outputs(example.module, example, torch.float32)


def error_of_max(got: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """Return the largest difference of any output over the largest magnitude in that output.

    Infinite where NaN, an infinity, a shape or an integer differs.
    """
    if len(got) != len(expected):
        return float("inf")
    return max(map(_error, got, expected))


def _outputs(module: torch.nn.Module, example: Example, dtype: torch.dtype) -> list[np.ndarray]:
    tensors = [
        tensor.to(dtype) if tensor.is_floating_point() else tensor
        for tensor in example.inputs.values()
    ]
    with torch.no_grad():
        return [output.numpy() for output in module(*tensors)]


def _error(got: np.ndarray, expected: np.ndarray) -> float:
    if got.shape != expected.shape:
        return float("inf")
    if expected.dtype.kind != "f":
        return 0.0 if np.array_equal(got, expected) else float("inf")
    finite = np.isfinite(expected)
    if not np.array_equal(got[~finite], expected[~finite].astype(got.dtype), equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    difference = np.abs(got[finite].astype(np.float64) - expected[finite]).max()
    largest = np.abs(expected[finite]).max() or 1.0
    return float("inf") if np.isnan(difference) else float(difference / largest)
