"""Fetch the next tile's input while this one is worked on.

A kernel of several passes reads memory in the first one only; in the others the hardware
prefetchers fall idle. The first nest that reads an input again asks for the next tile's part of it.
A kernel of one pass asks as it goes: a polynomial fills the reorder buffer, and the loads behind
it start too late (bias + GELU from memory: 0.91 of a copy's speed without, 1.14 with).
"""

from __future__ import annotations

from tvm import ir, tirx

from ..analysis.atoms import Access, Atom
from ..analysis.expr import Tensor, dtype_bytes
from .emit_expr import INDEX
from .plan import LoopGroup, Phase

_LINE_BYTES = 64
_REACH_BYTES = 8 << 10


def accesses(group: LoopGroup, phase: Phase, inputs: tuple[Tensor, ...]) -> list[Access]:
    """Return the reads of `inputs` that only this nest makes, or this one as the second of all."""
    position = next(i for i, g in enumerate(phase.groups) if g is group)
    earlier = 1 if len(phase.groups) > 1 else 0
    out: dict[int, Access] = {}
    for tensor in inputs:
        before = [_read(g, tensor) for g in phase.groups[:position]]
        mine = _read(group, tensor)
        if mine is not None and sum(a is not None for a in before) == earlier:
            out[id(tensor)] = mine
    return [a for a in out.values() if step(a, phase)]


def step(access: Access, phase: Phase) -> int:
    """Return the distance in elements to the same place of the next tile, 0 if there is none.

    A kernel of one pass may have tiles as large as a cache: it looks a few rows of lines ahead.
    """
    moving = [a for a in phase.tile if access.stride(a)]
    if not moving or access.opaque:
        return 0
    last: Atom = moving[-1]
    distance = access.stride(last) * phase.chunks.get(last, 1)
    if len(phase.groups) > 1:
        return distance
    return min(distance, _REACH_BYTES // dtype_bytes(access.tensor.dtype))


def _read(group: LoopGroup, tensor: Tensor) -> Access | None:
    found = (a for n in group.nodes for a in n.reads.values() if a.tensor is tensor)
    return next(found, None)


def fetch(flat: ir.Var, offset: ir.Expr, width: int, dtype: str) -> list[tirx.Stmt]:
    """Return prefetches of `width` elements from `offset` on, a line at a time."""
    out: list[tirx.Stmt] = []
    for start in range(0, width, _LINE_BYTES // dtype_bytes(dtype)):
        place = tirx.address_of(tirx.BufferLoad(flat, [offset + tirx.IntImm(INDEX, start)]))
        read, keep, data = (tirx.IntImm(INDEX, v) for v in (0, 2, 1))
        call = tirx.call_llvm_intrin("void", "llvm.prefetch.p0", place, read, keep, data)
        out.append(tirx.Evaluate(call))
    return out
