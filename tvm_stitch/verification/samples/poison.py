"""Fill memory that a kernel is to write before it reads it."""

from __future__ import annotations

import ctypes
import functools
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tvm_ffi
from tvm import tirx

from tir_schedules.kernel_ir.expr import dtype_bytes
from tvm_stitch.runtime.linking.link import call_compiler

# Of every byte. As floats they are NaN, and a large number: 1.3e36, or 61,000 in half precision.
NAN, LARGE = 0xFF, 0x7B
_SOURCE = Path(__file__).parent / "poison.cc"


def poison(array: np.ndarray, byte: int) -> None:
    """Fill an array, which is dense."""
    array.reshape(-1).view(np.uint8)[...] = byte


def poison_thread(byte: int, workspaces: Sequence[int]) -> None:
    """Fill the stack below the caller's, and what the next `workspaces` of this thread will be.

    These are bytes; TVM's pool hands out what it got back last.
    """
    library = _library()
    library.poison_workspaces(
        byte, (ctypes.c_uint64 * len(workspaces))(*workspaces), len(workspaces)
    )
    library.poison_stack(byte)


def workspaces_of(kernel: tirx.PrimFunc) -> list[int]:
    """Return the bytes of the buffers that a scheduled kernel allocates, in order."""
    found: list[int] = []

    def visit(node: tirx.AllocBuffer) -> None:
        extents, dtype = node.buffer.ty.shape, str(node.buffer.ty.dtype.dtype)
        if all(isinstance(extent, tirx.IntImm) for extent in extents):
            found.append(math.prod(int(extent) for extent in extents) * dtype_bytes(dtype))

    tvm_ffi.structural_walk(kernel.body, (tirx.AllocBuffer, visit))
    return found


@functools.cache
def _library() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory(prefix="tvm-stitch-") as folder:
        library = Path(folder) / "poison.so"
        call_compiler("-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE))
        return ctypes.CDLL(str(library))
