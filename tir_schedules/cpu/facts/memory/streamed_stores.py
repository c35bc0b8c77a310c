"""Which results can be stored past the caches."""

from __future__ import annotations

from ....analysis.iteration_space import Space
from ....kernel_ir.expr import Tensor

_DTYPES = ("float32", "float64", "int32", "int64")
MOST_REGISTERS = 8  # that one call may store
_LEAST_BYTES = 32  # of a register, whose stores stream


def may_stream(tensor: Tensor, space: Space, vector_bytes: int) -> bool:
    """Return whether a result of a kernel is of whole registers, and nothing in it reads it."""
    if vector_bytes < _LEAST_BYTES or tensor.dtype not in _DTYPES:
        return False
    return not any(stage.reads(tensor) for stage in space.kernel.stages)
