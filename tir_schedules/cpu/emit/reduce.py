"""Emit the accumulators of a nest's reductions: opened, added to, folded and stored."""

from __future__ import annotations

from tvm import ir, tirx

from ...tensor_ir.numbers import INDEX, cast, total
from ...tensor_ir.reductions import identity
from ..facts.vectors import halves
from .arithmetic.combiners import held, lane_tree
from .lanes import Stmts, each_lane
from .microkernel import add_term, added, open_rows
from .nest import Nest, Reduce, sequence


def open_lanes(nest: Nest, reduce: Reduce) -> list[tirx.Stmt]:
    """Start a reduction outside the strips: one accumulator, or one a lane if lanes are reduced."""
    width = nest.group.lanes if nest.vector in reduce.node.reduced else 1
    return open_accumulator(nest, reduce, width, rows=1)


def open_accumulator(nest: Nest, reduce: Reduce, width: int, rows: int) -> list[tirx.Stmt]:
    """Set `rows` accumulators of `width` lanes to the identity, or a stream's own storage."""
    node = reduce.node
    rule, dtype = node.stage.reduction, node.stage.value.dtype
    if not reduce.in_lanes:
        return _fill(nest, reduce, identity(rule, dtype))
    reduce.accs, opened = open_rows(rule, rows, width, dtype)
    return opened


def open_nested(nest: Nest, sums: list[Reduce]) -> list[tirx.Stmt]:
    """Give sums fresh accumulators for the block that follows; `close_nested` adds them up."""
    out: list[tirx.Stmt] = []
    for reduce in sums:
        reduce.outer.append(reduce.accs)
        width = int(reduce.accs[0].ty.shape[0])
        out += open_accumulator(nest, reduce, width, len(reduce.accs))
    return out


def close_nested(sums: list[Reduce]) -> list[tirx.Stmt]:
    out: list[tirx.Stmt] = []
    for reduce in sums:
        blocks, reduce.accs = reduce.accs, reduce.outer.pop()
        for block, acc in zip(blocks, reduce.accs, strict=True):

            def add(at: ir.Expr, rule=reduce.node.stage.reduction, block=block, acc=acc) -> Stmts:
                return [add_term(rule, acc, held(rule, block, at), at)]

            out.append(each_lane(int(acc.ty.shape[0]), add))
    return out


def _fill(nest: Nest, reduce: Reduce, value: ir.Expr) -> list[tirx.Stmt]:
    """Store `value` to every element of a streamed accumulator."""
    *outer, atom = reduce.after
    loops = nest.position.loops
    saved = dict(loops)
    for dim in outer:
        loops[dim] = tirx.Var(dim.name, INDEX)
    lanes = nest.group.lanes if atom is nest.vector else 1
    extent = nest.extent(atom)

    def at(start: ir.Expr, width: int) -> tirx.Stmt:
        lane = tirx.Var("lane", INDEX)
        loops[atom] = start + lane if width > 1 else start
        store = nest.store(reduce.node, value)
        return tirx.For(lane, 0, width, tirx.ForKind.VECTORIZED, store) if width > 1 else store

    out: list[tirx.Stmt] = []
    var = tirx.Var("strip", INDEX)
    if isinstance(extent, tirx.IntImm):
        whole, left = divmod(int(extent), lanes)
        done = whole * lanes
        out.append(tirx.For(var, 0, whole, tirx.ForKind.SERIAL, at(var * lanes, lanes)))
        for width in halves(left):
            out.append(at(tirx.IntImm(INDEX, done), width))
            done += width
    else:
        out.append(tirx.For(var, 0, extent, tirx.ForKind.SERIAL, at(var, 1)))
    for dim in reversed(outer):
        loop = loops[dim]
        out = [tirx.For(loop, 0, nest.extent(dim), tirx.ForKind.SERIAL, sequence(out))]
    nest.position.loops = saved
    return out


def accumulate(nest: Nest, reduce: Reduce, value: ir.Expr, lane: ir.Var | None) -> tirx.Stmt:
    """Combine `value` into the accumulator of the row at hand."""
    rule = reduce.node.stage.reduction
    if reduce.in_lanes:
        acc, at = reduce.accs[nest.row], lane if lane is not None else tirx.IntImm(INDEX, 0)
        return add_term(rule, acc, value, at)
    place = nest.store(reduce.node, value)
    old = cast(tirx.BufferLoad(place.buffer, place.indices), str(value.ty.dtype))
    updated = added(rule, old, value)
    return tirx.BufferStore(
        place.buffer, cast(updated, str(place.buffer.ty.dtype.dtype)), place.indices
    )


def close_lanes(nest: Nest, reduce: Reduce) -> list[tirx.Stmt]:
    """Fold the lanes of an accumulator and store the one result."""
    if not reduce.in_lanes:
        return []
    (acc,) = reduce.accs
    out, result = lane_tree(reduce.node.stage.reduction, acc, int(acc.ty.shape[0]))
    return [*out, nest.store(reduce.node, result)]


def close_strip(nest: Nest, reduce: Reduce, start: ir.Expr, width: int) -> list[tirx.Stmt]:
    """Store the accumulators of one strip, a result a lane, row by row."""
    saved = dict(nest.position.loops)
    loops = nest.position.loops
    out: list[tirx.Stmt] = []
    for row, acc in enumerate(reduce.accs):
        lane = tirx.Var("lane", INDEX)
        if nest.rows > 1:
            atom = nest.dims[nest.strip_at - 1]
            loops[atom] = total([(1, saved[atom])], row)
        parts = [(1, lane)] if width > 1 else []
        loops[nest.vector] = total([(1, start), *parts])
        value = held(reduce.node.stage.reduction, acc, total(parts))
        body = nest.store(reduce.node, value)
        if width > 1:
            body = tirx.For(lane, 0, width, tirx.ForKind.VECTORIZED, body)
        out.append(body)
    nest.position.loops = saved
    return out
