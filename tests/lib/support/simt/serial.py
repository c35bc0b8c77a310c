"""A scheduled kernel as loops of one thread: what it computes, whoever would run in parallel."""

from __future__ import annotations

import numpy as np
import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Var


def run_serial(func: tirx.PrimFunc, *arrays: np.ndarray) -> None:
    """Run a PrimFunc whose loops are bound to threads on this CPU; results are written in place."""
    library = tvm.compile(serial(func), target="llvm")
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    library(*tensors)
    for array, tensor in zip(arrays, tensors, strict=True):
        array[...] = tensor.numpy()


def serial(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a PrimFunc with loops in the place of threads, and all of its buffers in memory."""
    moved: dict[Var, Var] = {}

    def collect(block: s_tir.SBlock) -> None:
        for buffer in block.alloc_buffers:
            kind = buffer.ty
            moved[buffer] = tirx.decl_buffer(kind.shape, kind.dtype, buffer.name)

    tvm_ffi.structural_walk(func.body, (s_tir.SBlock, collect))

    def loop(found: tirx.For) -> tirx.For:
        return tirx.For(found.loop_var, found.min, found.extent, tirx.ForKind.SERIAL, found.body)

    def replace(var: Var, _mutator: tvm_ffi.StructuralMutator) -> Var:
        return moved.get(var, var)

    made = tvm_ffi.structural_mutate(func, [(Var, replace)]) if moved else func
    return made.with_body(tvm_ffi.structural_map(made.body, [(tirx.For, loop)], order="post"))
