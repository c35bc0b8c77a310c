"""Keep LLVM from holding in registers what a tile buffer is there for.

What a product of a few rows leaves to the epilogue of a later one is stored in a tile buffer, and
LLVM, which sees the stores and the loads, held it in registers as well: the sums of the products
between were spilled in each of their steps. An LSTM of 1024 x 8 took 920 us a step and 660 without
(2 threads of Emerald Rapids).
"""

from __future__ import annotations

from collections.abc import Iterable

from tvm import ir, tirx

from ....tensor_ir.numbers import INDEX


def compiler_fence(buffers: Iterable[ir.Var]) -> list[tirx.Stmt]:
    """Return what LLVM takes for a change of these buffers.

    The intrinsic emits nothing: x86 has coherent instruction caches.
    """
    starts = (tirx.address_of(tirx.BufferLoad(b, [tirx.IntImm(INDEX, 0)])) for b in buffers)
    calls = (tirx.call_llvm_intrin("void", "llvm.clear_cache", at, at) for at in starts)
    return [tirx.Evaluate(call) for call in calls]
