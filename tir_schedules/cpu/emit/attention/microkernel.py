"""Small pieces of hand-written kernels: loops over lanes, register tiles, packed operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import ir, tirx

from ...facts.vectors import halves
from ..expr import INDEX, constant
from ..nest import sequence
from ..storage import total

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


def filled(name: str, width: int, value: float, dtype: str) -> tuple[ir.Var, Stmts]:
    """Return a buffer of some lanes, and what allocates it and sets them."""
    buffer = tirx.decl_buffer((width,), dtype, name)
    fill = each_lane(width, lambda lane: [store(buffer, constant(value, dtype), lane)])
    return buffer, [tirx.AllocBuffer(buffer), fill]


def single(name: str, value: ir.Expr, dtype: str) -> tuple[ir.Var, Stmts]:
    """Return a buffer of one element, and what allocates it and sets it."""
    buffer = tirx.decl_buffer((1,), dtype, name)
    return buffer, [tirx.AllocBuffer(buffer), store(buffer, value)]


def product(
    rows: int,
    width: int,
    depth: int | ir.Expr,
    dtype: str,
    scalar: Callable[[int, ir.Expr], ir.Expr],
    lanes: Callable[[ir.Expr, ir.Expr], ir.Expr],
) -> tuple[list[ir.Var], Stmts]:
    """Return accumulators, one a row, and what sums `scalar(row, k) * lanes(k, lane)` into them.

    A buffer a row: TVM takes one of over 1 KiB from the heap, out of LLVM's registers.
    """
    opened = [filled("acc", width, 0.0, dtype) for _ in range(rows)]
    accs = [acc for acc, _ in opened]
    shared = tirx.decl_buffer((width,), dtype, "shared")

    def step(k: ir.Expr) -> Stmts:
        def lane_of(lane: ir.Expr) -> Stmts:
            out = [store(shared, lanes(k, lane), lane)]
            for row, acc in enumerate(accs):
                more = scalar(row, k) * load(shared, lane)
                out.append(store(acc, load(acc, lane) + more, lane))
            return out

        return [tirx.AllocBuffer(shared), each_lane(width, lane_of)]

    return accs, [s for _, opening in opened for s in opening] + [loop("k", depth, step)]
