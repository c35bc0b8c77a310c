"""Emit a transposing nest: blocks of lanes x lanes, read as rows and stored as columns.

The registers of a block are transposed by shuffles of two, log2(lanes) of them one behind the other
(Eklundh, "A fast computer method for matrix transposing", 1972).
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, tirx

from ...kernel_ir.expr import dtype_bytes
from ...tensor_ir.numbers import INDEX, total
from .nest import Nest, sequence
from .point import PointEmitter

_GROUP_BYTES = 16  # what x86's shuffles keep together


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
    """Return the shuffles that turn registers of rows into registers of columns, and those.

    Each swaps a bit of the row's number for one of the lane's: inside 128 bits the lane's highest
    (UNPCKLPS, UNPCKLPD), so that those rows come out in bit-reversed order, then the lowest of the
    number of the 128 bits (VSHUFF32X4). These take no registers for what goes where.
    """
    side, out = len(rows), []
    dtype = rows[0].ty.dtype.dtype
    lanes = tirx.Ramp(tirx.IntImm(INDEX, 0), tirx.IntImm(INDEX, 1), side)
    inside = min(side, _GROUP_BYTES // dtype_bytes(str(dtype)))
    for bit in range(side.bit_length() - 1):
        apart = 1 << bit
        made = [tirx.decl_buffer((side,), str(dtype), "block") for _ in rows]
        out += [tirx.AllocBuffer(each) for each in made]
        for low in (number for number in range(side) if not number & apart):
            pair = [tirx.BufferLoad(rows[number], [lanes]) for number in (low, low + apart)]
            for half, number in enumerate((low, low + apart)):
                picks = [tirx.IntImm(INDEX, at) for at in _order(side, inside, apart, half)]
                out.append(tirx.BufferStore(made[number], tirx.Shuffle(pair, picks), [lanes]))
        rows = made
    return out, [rows[_reversed_below(inside, number)] for number in range(side)]


def _order(side: int, inside: int, apart: int, half: int) -> list[int]:
    """Return the lanes that half a pair becomes: of the first row 0.., of the second `side`.."""
    if apart >= inside:
        starts = (row + group for row in (0, side) for group in range(0, side, 2 * inside))
        return [at + half * inside + lane for at in starts for lane in range(inside)]
    units = (
        row + group + half * inside // 2 + unit
        for group in range(0, side, inside)
        for unit in range(0, inside // 2, apart)
        for row in (0, side)
    )
    return [unit + lane for unit in units for lane in range(apart)]


def _reversed_below(count: int, number: int) -> int:
    """Return a number with the bits below `count` in reverse order."""
    bits = count.bit_length() - 1
    low = sum((number >> bit & 1) << (bits - 1 - bit) for bit in range(bits))
    return number - number % count + low
