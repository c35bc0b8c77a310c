"""Emit one lane of a register tile with the depth of its sums in the lanes."""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, tirx

from ...tensor_ir.numbers import INDEX, total
from ..facts.products.depth_lanes import register_lanes
from .arithmetic.combiners import lane_tree
from .microkernel import add_term
from .nest import Nest, Reduce, sequence
from .reduce import open_accumulator

Body = Callable[[int, ir.Expr], list[tirx.Stmt]]


def lane_of_sums(nest: Nest, reduce: Reduce, at: ir.Expr, emit: Body) -> list[tirx.Stmt]:
    """Emit what sums the lane `at`; each row's accumulator has that one lane then.

    `emit` emits the rows' terms, so many lanes from a place on: of the depth, here.
    """
    depth, vector, loops = nest.dims[-2], nest.vector, nest.position.loops
    register, rule = (
        register_lanes(nest.group, nest.storage.vector_bytes),
        reduce.node.stage.reduction,
    )
    registers, rest = divmod(depth.extent, register)
    out = open_accumulator(nest, reduce, register, nest.rows)
    parts, loops[vector], nest.vector = reduce.accs, at, depth
    line, step = (tirx.Var(name, INDEX) for name in ("line", depth.name))
    body = emit(register, total([(register, line)]))
    out.append(tirx.For(line, 0, registers, tirx.ForKind.SERIAL, sequence(body)))
    if rest:
        body = emit(1, total([(1, step)], registers * register))
        out.append(tirx.For(step, 0, rest, tirx.ForKind.SERIAL, sequence(body)))
    nest.vector = vector
    out += open_accumulator(nest, reduce, 1, nest.rows)
    for part, acc in zip(parts, reduce.accs, strict=True):
        folded, result = lane_tree(rule, part, register)
        out += [*folded, add_term(rule, acc, result, tirx.IntImm(INDEX, 0))]
    return out
