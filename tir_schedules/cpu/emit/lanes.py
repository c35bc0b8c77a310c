"""The small words of emission: loops, lanes, strips of them, and places in flat buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import ir, tirx

from ...tensor_ir.numbers import INDEX, total
from ..facts.vectors import halves
from .nest import sequence

Stmts = list[tirx.Stmt]


Part = tuple[int, ir.Expr] | ir.Expr  # a position, times a number


def load(buffer: ir.Var, *parts: Part) -> ir.Expr:
    """Return the element of a flat buffer at a sum of positions, the first one if there is none."""
    return tirx.BufferLoad(buffer, [_sum(parts)])


def store(buffer: ir.Var, value: ir.Expr, *parts: Part) -> tirx.Stmt:
    """Return the store of an element of a flat buffer, where `load` finds it."""
    return tirx.BufferStore(buffer, value, [_sum(parts)])


def _sum(parts: Sequence[Part]) -> ir.Expr:
    return total([part if isinstance(part, tuple) else (1, part) for part in parts])


def at(number: int) -> tirx.IntImm:
    return tirx.IntImm(INDEX, number)


def loop(name: str, count: int | ir.Expr, body: Callable[[ir.Expr], Stmts]) -> tirx.Stmt:
    """Emit a serial loop from 0."""
    var = tirx.Var(name, INDEX)
    return tirx.For(var, 0, count, tirx.ForKind.SERIAL, sequence(body(var)))


def each_lane(width: int, body: Callable[[ir.Expr], Stmts]) -> tirx.Stmt:
    """Emit statements for all lanes at once."""
    if width == 1:
        return sequence(body(at(0)))
    lane = tirx.Var("lane", INDEX)
    return tirx.For(lane, 0, width, tirx.ForKind.VECTORIZED, sequence(body(lane)))


def strips(
    extent: int,
    lanes: int,
    body: Callable[[ir.Expr, int], Stmts],
    upto: ir.Expr | None = None,
) -> Stmts:
    """Emit `body(start, width)` for whole strips in a loop, then for halving powers of two.

    `upto` is where to end, if not at the extent: behind some of the whole strips.
    """
    whole, out = extent // lanes, []
    if whole:
        count = whole if upto is None else tirx.FloorDiv(upto, at(lanes))
        out.append(loop("strip", count, lambda strip: body(strip * lanes, lanes)))
    done, rest = whole * lanes, []
    for width in halves(extent - done):
        rest += body(at(done), width)
        done += width
    if rest and upto is not None:
        rest = [tirx.IfThenElse(tirx.EQ(upto, at(extent)), sequence(rest), None)]
    return out + rest


def single(name: str, value: ir.Expr, dtype: str) -> tuple[ir.Var, Stmts]:
    """Return a buffer of one element, and what allocates it and sets it."""
    buffer = tirx.decl_buffer((1,), dtype, name)
    return buffer, [tirx.AllocBuffer(buffer), store(buffer, value)]
