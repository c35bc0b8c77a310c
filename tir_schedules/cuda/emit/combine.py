"""Sums that threads have parts of: added up over lanes, then over warps through shared memory.

Lanes exchange with each other (a butterfly), so that all of them have the same bits.
"""

from __future__ import annotations

from tvm import ir, tirx

from ...analysis.iteration_space import Node
from ...device.cuda import WARP
from ...kernel_ir.stage import Reduction
from ...tensor_ir.numbers import total
from ..plan.nest import Nest
from .arithmetic import combined
from .code import barrier, from_lane, guarded, number, unrolled
from .storage import Storage


def combine(nest: Nest, storage: Storage, thread: ir.Var) -> list[tirx.Stmt]:
    """Return what adds up the sums of a nest, so that each thread has the whole of its own."""
    out: list[tirx.Stmt] = []
    parts: list[tuple[Node, int, ir.Var]] = []
    for node in (n for n in nest.nodes if n.reduced):
        bits, places = storage.phase.sum_bits(node), storage.phase.sum_places(node)
        out += _over_lanes(node, storage, bits % WARP)
        if places:
            size, dtype = int(storage.registers[node].ty.shape[0]) * places, node.stage.out.dtype
            shared = storage.between_warps(f"{node.stage.out.name}_parts", size, dtype)
            parts.append((node, bits, shared))
    if not parts:
        return out
    for node, bits, shared in parts:
        out += _give(node, storage, bits, shared, thread)
    out.append(barrier())
    for node, bits, shared in parts:
        out += _take(node, storage, bits, shared, thread)
    return out


def _fold(bits: int) -> int:
    """Return how many lanes of a warp share one place: all, or each has its own."""
    return WARP if bits % WARP == WARP - 1 else 1


def _over_lanes(node: Node, storage: Storage, bits: int) -> list[tirx.Stmt]:
    kept, rule = storage.registers[node], node.stage.reduction
    count, out = int(kept.ty.shape[0]), []
    other = storage.local("other", 1, node.stage.out.dtype)
    distance = WARP // 2
    while distance:
        if bits & distance:
            out += unrolled("at", count, lambda at, d=distance: _exchange(rule, kept, at, d, other))
        distance //= 2
    return out


def _exchange(
    rule: Reduction, kept: ir.Var, at: ir.Expr, distance: int, other: ir.Var
) -> list[tirx.Stmt]:
    own, zero = tirx.BufferLoad(kept, [at]), number(0)
    take = tirx.BufferStore(other, from_lane(own, distance), [zero])
    both = combined(rule, own, tirx.BufferLoad(other, [zero]))
    return [take, tirx.BufferStore(kept, both, [at])]


def _place(bits: int, thread: ir.Expr) -> ir.Expr:
    """Return the place of a thread's sum among those of the block."""
    fold = _fold(bits)
    return thread if fold == 1 else tirx.FloorDiv(thread, number(fold))


def _give(
    node: Node, storage: Storage, bits: int, shared: ir.Var, thread: ir.Var
) -> list[tirx.Stmt]:
    kept, fold = storage.registers[node], _fold(bits)
    places = storage.phase.sum_places(node)
    at_place = _place(bits, thread)

    def give(at: ir.Expr) -> list[tirx.Stmt]:
        value = tirx.BufferLoad(kept, [at])
        return [tirx.BufferStore(shared, value, [total([(places, at), (1, at_place)])])]

    first = tirx.EQ(tirx.FloorMod(thread, number(WARP)), number(0)) if fold > 1 else None
    return guarded(first, unrolled("at", int(kept.ty.shape[0]), give))


def _take(
    node: Node, storage: Storage, bits: int, shared: ir.Var, thread: ir.Var
) -> list[tirx.Stmt]:
    """Add up, in the order of the threads, what the warps of one sum have given."""
    kept, rule, fold = storage.registers[node], node.stage.reduction, _fold(bits)
    places = storage.phase.sum_places(node)
    upper = bits // WARP * WARP // fold
    own = _place(bits, thread)
    terms = [n for n in range(upper + 1) if n & ~upper == 0]
    base = _without(own, upper)

    def take(at: ir.Expr) -> list[tirx.Stmt]:
        out: list[tirx.Stmt] = []
        for number_of, term in enumerate(terms):
            index = total([(places, at), (1, base)], term)
            value = tirx.BufferLoad(shared, [index])
            if number_of:
                value = combined(rule, tirx.BufferLoad(kept, [at]), value)
            out.append(tirx.BufferStore(kept, value, [at]))
        return out

    return unrolled("at", int(kept.ty.shape[0]), take)


def _without(value: ir.Expr, bits: int) -> ir.Expr:
    """Return a number with some of its bits taken as 0, one run of them after the other."""
    while bits:
        low = bits & -bits
        high = low
        while bits & high:
            high *= 2
        upper = tirx.FloorDiv(value, number(high)) * number(high)
        value = upper if low == 1 else upper + tirx.FloorMod(value, number(low))
        bits &= ~(high - 1)
    return value
