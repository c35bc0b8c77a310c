"""Emit the sum of partial results, piece after piece, whatever thread made them."""

from __future__ import annotations

from tvm import ir, tirx

from ..plan.kernel_plan import LoopNest
from .access.storage import Storage, total
from .arithmetic.combiners import combine, identity
from .arithmetic.expr import INDEX, cast


def emit_combine(group: LoopNest, storage: Storage) -> tirx.Stmt:
    """Emit `for strip: acc = identity; for piece: acc += partial[piece]; out = acc`."""
    node = group.nodes[0]
    buffer, pieces = storage.partials[node]
    elements, rule = node.stage.out.elements, node.stage.reduction
    lanes = group.lanes if elements % group.lanes == 0 else 1
    dtype = node.stage.value.dtype
    acc = tirx.decl_buffer((lanes,), dtype, "acc")
    strip, piece = tirx.Var("strip", INDEX), tirx.Var("piece", INDEX)

    def over(make) -> tirx.Stmt:
        lane: ir.Expr = tirx.Var("lane", INDEX) if lanes > 1 else tirx.IntImm(INDEX, 0)
        stmt = make(lane)
        return tirx.For(lane, 0, lanes, tirx.ForKind.VECTORIZED, stmt) if lanes > 1 else stmt

    def offset(lane: ir.Expr) -> ir.Expr:
        return total([(lanes, strip), (1, lane)])

    def add(lane: ir.Expr) -> tirx.Stmt:
        part = tirx.BufferLoad(buffer, [total([(1, offset(lane)), (elements, piece)])])
        return tirx.BufferStore(acc, combine(rule, tirx.BufferLoad(acc, [lane]), part), [lane])

    flat = storage.flat(node.stage.out)
    body = tirx.SeqStmt(
        [
            tirx.AllocBuffer(acc),
            over(lambda lane: tirx.BufferStore(acc, identity(rule, dtype), [lane])),
            tirx.For(piece, 0, pieces, tirx.ForKind.SERIAL, over(add)),
            over(
                lambda lane: tirx.BufferStore(
                    flat, cast(tirx.BufferLoad(acc, [lane]), node.stage.out.dtype), [offset(lane)]
                )
            ),
        ]
    )
    return tirx.For(strip, 0, elements // lanes, tirx.ForKind.SERIAL, body)
