"""Emit the sum of partial results, piece after piece, whatever thread made them."""

from __future__ import annotations

from tvm import ir, tirx

from ..plan.kernel_plan import LoopNest
from .access.storage import Storage, as_stored, total
from .arithmetic.combiners import combine, held, identity, kept
from .arithmetic.expr import INDEX, cast


def emit_combine(group: LoopNest, storage: Storage) -> tirx.Stmt:
    """Emit `for strip: acc = identity; for piece: acc += partial[piece]; out = acc`."""
    node = group.nodes[0]
    buffer, pieces = storage.partials[node]
    out, rule = node.stage.out, node.stage.reduction
    elements = out.elements
    lanes = group.lanes if elements % group.lanes == 0 else 1
    dtype = node.stage.value.dtype
    start = kept(identity(rule, dtype))
    acc = tirx.decl_buffer((lanes,), str(start.ty.dtype), "acc")
    strip, piece = tirx.Var("strip", INDEX), tirx.Var("piece", INDEX)

    def over(make) -> tirx.Stmt:
        lane: ir.Expr = tirx.Var("lane", INDEX) if lanes > 1 else tirx.IntImm(INDEX, 0)
        stmt = make(lane)
        return tirx.For(lane, 0, lanes, tirx.ForKind.VECTORIZED, stmt) if lanes > 1 else stmt

    def offset(lane: ir.Expr) -> ir.Expr:
        return total([(lanes, strip), (1, lane)])

    def add(lane: ir.Expr) -> tirx.Stmt:
        part = held(rule, buffer, total([(1, offset(lane)), (elements, piece)]))
        return tirx.BufferStore(acc, kept(combine(rule, held(rule, acc, lane), part)), [lane])

    def finish(lane: ir.Expr) -> tirx.Stmt:
        value = as_stored(cast(held(rule, acc, lane), out.dtype), out.dtype)
        return tirx.BufferStore(storage.flat(out), value, [offset(lane)])

    body = tirx.SeqStmt(
        [
            tirx.AllocBuffer(acc),
            over(lambda lane: tirx.BufferStore(acc, start, [lane])),
            tirx.For(piece, 0, pieces, tirx.ForKind.SERIAL, over(add)),
            over(finish),
        ]
    )
    return tirx.For(strip, 0, elements // lanes, tirx.ForKind.SERIAL, body)
