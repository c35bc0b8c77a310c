"""Emit a transposing nest: blocks of lanes x lanes, read as rows and stored as columns.

The registers of a block are transposed by shuffles that swap ever smaller squares (Eklundh, "A fast
computer method for matrix transposing", 1972).
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, tirx

from .emit_expr import INDEX
from .emit_point import PointEmitter
from .nest import Nest, sequence
from .storage import total


def emit_blocks(nest: Nest, points: PointEmitter) -> list[tirx.Stmt]:
    """Emit the two innermost loops of a nest: the atom stored along, then the one read along.

    Blocks at the end overlap the ones before: what is done twice is the same.
    """
    *_, stored, read = nest.dims
    (node,), loops, side = nest.group.nodes, nest.position.loops, nest.group.lanes
    (first_stored, each_stored), (first_read, each_read) = (
        _blocks(nest.extent(atom), side) for atom in (stored, read)
    )
    rows = [tirx.decl_buffer((side,), node.stage.out.dtype, "row") for _ in range(side)]
    body: list[tirx.Stmt] = [tirx.AllocBuffer(row) for row in rows]
    for number, row in enumerate(rows):
        loops[stored] = total([(1, first_stored)], number)
        body += points.emit(side, first_read, into=row)
    shuffles, columns = transposed(rows)
    body += shuffles
    for number, column in enumerate(columns):
        loops[read] = total([(1, first_read)], number)
        loops[stored] = first_stored
        if nest.storage.streams(node, side):
            body.append(nest.storage.stream(node, column, side, nest.position))
            continue
        lane = tirx.Var("lane", INDEX)
        loops[stored] = first_stored + lane
        store = nest.store(node, tirx.BufferLoad(column, [lane]))
        body.append(tirx.For(lane, 0, side, tirx.ForKind.VECTORIZED, store))
    inner = each_read(sequence(body))
    return [each_stored(inner)]


def _blocks(extent: ir.Expr, side: int) -> tuple[ir.Expr, Callable[[tirx.Stmt], tirx.Stmt]]:
    """Return where a block begins, and what makes the loop over them."""
    var, step = tirx.Var("block", INDEX), tirx.IntImm(INDEX, side)
    start: ir.Expr = var * step
    count: ir.Expr = tirx.FloorDiv(extent + tirx.IntImm(INDEX, side - 1), step)
    if isinstance(extent, tirx.IntImm):
        count = tirx.IntImm(INDEX, -(-int(extent) // side))
    if not isinstance(extent, tirx.IntImm) or int(extent) % side:
        start = tirx.Min(start, extent - step)
    return start, lambda body: tirx.For(var, 0, count, tirx.ForKind.SERIAL, body)


def transposed(rows: list[ir.Var]) -> tuple[list[tirx.Stmt], list[ir.Var]]:
    """Return the shuffles that turn registers of rows into registers of columns, and those."""
    side, out = len(rows), []
    dtype = str(rows[0].ty.dtype.dtype)
    lanes = tirx.Ramp(tirx.IntImm(INDEX, 0), tirx.IntImm(INDEX, 1), side)
    apart = side // 2
    while apart:
        made = [tirx.decl_buffer((side,), dtype, "block") for _ in rows]
        out += [tirx.AllocBuffer(each) for each in made]
        for low in (number for number in range(side) if not number & apart):
            pair = [tirx.BufferLoad(rows[number], [lanes]) for number in (low, low + apart)]
            for number, order in zip((low, low + apart), _orders(side, apart), strict=True):
                picks = [tirx.IntImm(INDEX, lane) for lane in order]
                out.append(tirx.BufferStore(made[number], tirx.Shuffle(pair, picks), [lanes]))
        rows, apart = made, apart // 2
    return out, rows


def _orders(side: int, apart: int) -> tuple[list[int], list[int]]:
    """Return what two registers become: lanes of the first are 0.., of the second `side`.."""
    low = [lane if not lane & apart else side + lane - apart for lane in range(side)]
    high = [lane + apart if not lane & apart else side + lane for lane in range(side)]
    return low, high
