"""Store a register tile whose results lie along its rows: turned in registers, not lane by lane.

Convolutions with channels in lanes that leave an image channels first. Lane by lane, it was a fifth
of the time of 256 to 1024 channels on 14x14 pixels.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, tirx

from ...analysis.iteration_space import Atom
from ...kernel_ir.expr import dtype_bytes
from ...tensor_ir.numbers import INDEX, total
from ..facts.products.epilogues import turns
from ..facts.shapes import SHAPES
from .nest import Nest
from .transposed import transposed

Value = Callable[[int, ir.Var], list[tirx.Stmt]]


def stores_along(nest: Nest, row: Atom, rows: int, width: int) -> bool:
    """Return whether the nest behind `rows` x `width` sums stores vectors along the row atom."""
    if not nest.group.shuffles or rows < SHAPES.turned_rows or width % _side(nest):
        return False
    return turns(nest.group.nodes, row, nest.vector, nest.storage.vector_bytes)


def store_turned(
    nest: Nest, row: Atom, first: ir.Expr, start: ir.Expr, size: tuple[int, int], value: Value
) -> list[tirx.Stmt]:
    """Return what stores rows x lanes of a `size`, from row `first` and lane `start` on.

    `value` puts the results of a row, by its number, into a buffer.
    """
    (node,), side, (rows, width) = nest.group.nodes, _side(nest), size
    dtype, out = node.stage.out.dtype, []
    wide = [tirx.decl_buffer((width,), dtype, "results") for _ in range(rows)]
    for number, buffer in enumerate(wide):
        out += [tirx.AllocBuffer(buffer), *value(number, buffer)]
    loops = nest.position.loops
    count = min(side, rows)
    for base in sorted({min(at, rows - count) for at in range(0, rows, side)}):
        for lane in range(0, width, side):
            square = [tirx.decl_buffer((side,), dtype, "row") for _ in range(count)]
            for narrow, buffer in zip(square, wide[base : base + count], strict=True):
                part = tirx.BufferLoad(buffer, [_ramp(lane, side)])
                out += [tirx.AllocBuffer(narrow), tirx.BufferStore(narrow, part, [_ramp(0, side)])]
            shuffles, columns = transposed(square + square[-1:] * (side - count))
            out += shuffles
            for number, column in enumerate(columns):
                loops[nest.vector] = total([(1, start)], lane + number)
                out += _store(nest, row, total([(1, first)], base), column, count)
    return out


def _store(nest: Nest, row: Atom, first: ir.Expr, column: ir.Var, count: int) -> list[tirx.Stmt]:
    """Return the stores of the first `count` elements: one vector, or two that overlap."""
    (node,), loops, out = nest.group.nodes, nest.position.loops, []
    width = 1 << (count.bit_length() - 1)
    for start in sorted({0, count - width}):
        piece = tirx.decl_buffer((width,), node.stage.out.dtype, "piece")
        whole = tirx.BufferLoad(column, [_ramp(0, _side(nest))])
        picks = [tirx.IntImm(INDEX, start + lane) for lane in range(width)]
        chosen = tirx.Shuffle([whole], picks)
        out += [tirx.AllocBuffer(piece), tirx.BufferStore(piece, chosen, [_ramp(0, width)])]
        lane = tirx.Var("lane", INDEX)
        loops[row] = total([(1, first), (1, lane)], start)
        store = nest.store(node, tirx.BufferLoad(piece, [lane]))
        out.append(tirx.For(lane, 0, width, tirx.ForKind.VECTORIZED, store))
    loops[row] = first
    return out


def _side(nest: Nest) -> int:
    """Return the lanes of a register."""
    return nest.storage.vector_bytes // dtype_bytes(nest.group.nodes[0].stage.out.dtype)


def _ramp(start: int, lanes: int) -> ir.Expr:
    return tirx.Ramp(tirx.IntImm(INDEX, start), tirx.IntImm(INDEX, 1), lanes)
