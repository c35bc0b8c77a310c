"""Emit prefetches of lines."""

from __future__ import annotations

from tvm import ir, tirx

from ....device import LINE_BYTES
from ....kernel_ir.expr import dtype_bytes
from ....tensor_ir.numbers import INDEX


def fetch(
    flat: ir.Var, offset: ir.Expr, width: int, dtype: str, cache: int, *, writes: bool = False
) -> list[tirx.Stmt]:
    """Return prefetches of `width` elements from `offset` on into a cache, a line at a time."""
    out: list[tirx.Stmt] = []
    for start in range(0, width, LINE_BYTES // dtype_bytes(dtype)):
        place = tirx.address_of(tirx.BufferLoad(flat, [offset + tirx.IntImm(INDEX, start)]))
        write, keep, data = (tirx.IntImm(INDEX, v) for v in (int(writes), cache, 1))
        call = tirx.call_llvm_intrin("void", "llvm.prefetch.p0", place, write, keep, data)
        out.append(tirx.Evaluate(call))
    return out
