"""The microkernel: rows of accumulators in registers, and what is added to them.

Products with an epilogue, convolutions, plain reductions and both products of attention are made of
it. What its terms are is the caller's: `NestEmitter` takes them from a kernel's nodes.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, tirx

from ...kernel_ir.stage import Reduction
from ...tensor_ir.reductions import identity
from .arithmetic.combiners import SUM, combine, held, kept
from .lanes import Stmts, each_lane, load, loop, store

_CHOICE = ir.Op.get("prim.if_then_else")


def accumulator(start: ir.Expr, width: int, name: str = "acc") -> tuple[ir.Var, Stmts]:
    """Return a buffer of `width` lanes, and what allocates it and sets each to `start`."""
    start = kept(start)
    buffer = tirx.decl_buffer((width,), str(start.ty.dtype), name)
    fill = each_lane(width, lambda lane: [store(buffer, start, lane)])
    return buffer, [tirx.AllocBuffer(buffer), fill]


def open_rows(rule: Reduction, rows: int, width: int, dtype: str) -> tuple[list[ir.Var], Stmts]:
    """Return accumulators, one a row, and what opens them.

    A buffer a row: TVM takes one of over 1 KiB from the heap, where LLVM need not keep it in
    registers, and one store that opens all rows is a vector that LLVM takes apart by lanes.
    """
    opened = [accumulator(identity(rule, dtype), width) for _ in range(rows)]
    return [acc for acc, _ in opened], [stmt for _, opening in opened for stmt in opening]


def add_term(rule: Reduction, acc: ir.Var, term: ir.Expr, lane: ir.Expr) -> tirx.Stmt:
    """Combine a term into a lane of an accumulator."""
    return store(acc, kept(added(rule, held(rule, acc, lane), term)), lane)


def added(rule: Reduction, old: ir.Expr, term: ir.Expr) -> ir.Expr:
    """Return `combine(rule, old, term)`; a term that is chosen is added where it is.

    A multiply-add rounds once, a product that is chosen first is rounded before it is added. Other
    tiles leave out the same term by their loops, and results are the same for all of them.
    """
    if rule.kind == "sum" and isinstance(term, ir.Call) and term.op == _CHOICE:
        condition, chosen, otherwise = term.args
        if isinstance(otherwise, tirx.FloatImm) and float(otherwise.value) == 0.0:
            return tirx.if_then_else(condition, combine(rule, old, chosen), old)
    return combine(rule, old, term)


def product(
    rows: int,
    width: int,
    depth: int | ir.Expr,
    dtype: str,
    scalar: Callable[[int, ir.Expr], ir.Expr],
    lanes: Callable[[ir.Expr, ir.Expr], ir.Expr],
) -> tuple[list[ir.Var], Stmts]:
    """Return accumulators, one a row, and what sums `scalar(row, k) * lanes(k, lane)` into them."""
    accs, opened = open_rows(SUM, rows, width, dtype)
    shared = tirx.decl_buffer((width,), dtype, "shared")

    def step(k: ir.Expr) -> Stmts:
        def lane_of(lane: ir.Expr) -> Stmts:
            out = [store(shared, lanes(k, lane), lane)]
            for row, acc in enumerate(accs):
                out.append(add_term(SUM, acc, scalar(row, k) * load(shared, lane), lane))
            return out

        return [tirx.AllocBuffer(shared), each_lane(width, lane_of)]

    return accs, [*opened, loop("k", depth, step)]
