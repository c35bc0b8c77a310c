"""Emit the sum of partial results, piece after piece, whatever thread made them."""

from __future__ import annotations

from tvm import ir, tirx

from ...tensor_ir.numbers import cast, total
from ...tensor_ir.reductions import identity
from ..plan.kernel_plan import LoopNest
from .access.storage import Storage, as_stored
from .arithmetic.combiners import held
from .lanes import Stmts, each_lane, loop, store
from .microkernel import accumulator, add_term


def emit_combine(group: LoopNest, storage: Storage) -> tirx.Stmt:
    """Emit `for strip: acc = identity; for piece: acc += partial[piece]; out = acc`."""
    node = group.nodes[0]
    buffer, pieces = storage.partials[node]
    out, rule = node.stage.out, node.stage.reduction
    lanes = group.lanes if out.elements % group.lanes == 0 else 1

    def strip(number: ir.Expr) -> Stmts:
        acc, opened = accumulator(identity(rule, node.stage.value.dtype), lanes)

        def offset(lane: ir.Expr) -> ir.Expr:
            return total([(lanes, number), (1, lane)])

        def add(piece: ir.Expr, lane: ir.Expr) -> tirx.Stmt:
            part = held(rule, buffer, total([(1, offset(lane)), (out.elements, piece)]))
            return add_term(rule, acc, part, lane)

        def finish(lane: ir.Expr) -> tirx.Stmt:
            value = as_stored(cast(held(rule, acc, lane), out.dtype), out.dtype)
            return store(storage.flat(out), value, offset(lane))

        def each_piece(piece: ir.Expr) -> Stmts:
            return [each_lane(lanes, lambda lane: [add(piece, lane)])]

        finished = each_lane(lanes, lambda lane: [finish(lane)])
        return [*opened, loop("piece", pieces, each_piece), finished]

    return loop("strip", out.elements // lanes, strip)
