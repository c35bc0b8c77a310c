"""Random inputs for a kernel by itself: what it takes for positions stays inside what is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tir_schedules.kernel_ir.expr import Tensor
from tir_schedules.kernel_ir.stage import Kernel
from tvm_stitch.profiling.arrays import aligned_copy, dtype_of

_MOST = 100  # of an integer that is no position


@dataclass(frozen=True)
class TensorSpec:
    """The shape and dtype of an array."""

    shape: tuple[int, ...]
    dtype: str


def kernel_inputs(kernel: Kernel, seed: int) -> list[np.ndarray]:
    """Return an array for each tensor that the kernel reads, in the order of its parameters."""
    return random_arrays(kernel.inputs, positions(kernel), seed)


def random_arrays(tensors: Sequence[Tensor | TensorSpec], most: int, seed: int) -> list[np.ndarray]:
    """Return an array for each tensor; integers are below `most`."""
    rng = np.random.default_rng(seed)
    return [aligned_copy(_values(rng, tensor, most)) for tensor in tensors]


def kernel_outputs(kernel: Kernel) -> list[np.ndarray]:
    """Return an array for each tensor that the kernel writes."""
    return [aligned_copy(np.zeros(t.shape, dtype_of(t.dtype))) for t in kernel.outputs]


def positions(kernel: Kernel) -> int:
    """Return below what integers are positions in every tensor that is read at such."""
    loads = [load for stage in kernel.stages for load in stage.loads()]
    indirect = [load for load in loads if any(index.loads_any for index in load.index)]
    return min((extent for load in indirect for extent in load.tensor.shape), default=_MOST)


def _values(rng: np.random.Generator, tensor: Tensor | TensorSpec, most: int) -> np.ndarray:
    if tensor.dtype == "bool":
        return rng.integers(0, 2, tensor.shape).astype(bool)
    if tensor.dtype.startswith(("int", "uint")):
        return rng.integers(0, max(1, most), tensor.shape).astype(tensor.dtype)
    return rng.standard_normal(tensor.shape, dtype=np.float32).astype(dtype_of(tensor.dtype))
