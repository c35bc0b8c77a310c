"""Random inputs for a kernel by itself: what it takes for positions stays inside what is read."""

from __future__ import annotations

import numpy as np

from tir_schedules.kernel_ir.expr import Tensor
from tir_schedules.kernel_ir.stage import Kernel
from tvm_stitch.profiling.arrays import aligned_copy, dtype_of

_MOST = 100  # of an integer that is no position


def kernel_inputs(kernel: Kernel, seed: int) -> list[np.ndarray]:
    """Return an array for each tensor that the kernel reads, in the order of its parameters."""
    rng, most = np.random.default_rng(seed), _positions(kernel)
    return [aligned_copy(_values(rng, tensor, most)) for tensor in kernel.inputs]


def kernel_outputs(kernel: Kernel) -> list[np.ndarray]:
    """Return an array for each tensor that the kernel writes."""
    return [aligned_copy(np.zeros(t.shape, dtype_of(t.dtype))) for t in kernel.outputs]


def _positions(kernel: Kernel) -> int:
    """Return below what integers are positions in every tensor that is read at such."""
    loads = [load for stage in kernel.stages for load in stage.loads()]
    indirect = [load for load in loads if any(index.loads_any for index in load.index)]
    return min((extent for load in indirect for extent in load.tensor.shape), default=_MOST)


def _values(rng: np.random.Generator, tensor: Tensor, most: int) -> np.ndarray:
    if tensor.dtype == "bool":
        return rng.integers(0, 2, tensor.shape).astype(bool)
    if tensor.dtype.startswith(("int", "uint")):
        return rng.integers(0, max(1, most), tensor.shape).astype(tensor.dtype)
    return rng.standard_normal(tensor.shape, dtype=np.float32).astype(dtype_of(tensor.dtype))
