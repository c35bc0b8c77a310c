"""Emit the steps of a register tile whose rows are packed, a line of each row at a time."""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, tirx

from ...analysis.iteration_space import Atom
from ...device import LINE_BYTES
from ...kernel_ir.expr import dtype_bytes
from ...tensor_ir.numbers import INDEX, total
from .access.storage import stored
from .nest import Nest, sequence
from .point import PointEmitter

Body = Callable[[], list[tirx.Stmt]]


def packed_steps(nest: Nest, depth: Atom, points: PointEmitter, emit: Body) -> list[tirx.Stmt]:
    """Emit a loop over the depth of a product: lines in a loop, what is behind them as it lies."""
    load, loops = nest.group.packed, nest.position.loops
    width = LINE_BYTES // dtype_bytes(load.dtype)
    lines, rest = divmod(depth.extent, width)
    buffer = tirx.decl_buffer((nest.rows * width,), stored(load.dtype), "packed")
    line, step = (tirx.Var(name, INDEX) for name in ("line", depth.name))
    saved = loops[depth]
    body = _copies(nest, depth, points, buffer, line, width)
    loops[depth] = total([(width, line), (1, step)])

    def element() -> ir.Expr:
        return tirx.BufferLoad(buffer, [total([(1, step)], nest.row * width)])

    points.packed = {load: element}
    body.append(tirx.For(step, 0, width, tirx.ForKind.SERIAL, sequence(emit())))
    points.packed = {}
    whole = tirx.For(line, 0, lines, tirx.ForKind.SERIAL, sequence(body))
    out: list[tirx.Stmt] = [tirx.AllocBuffer(buffer), whole]
    if rest:
        last = tirx.Var(depth.name, INDEX)
        loops[depth] = total([(1, last)], lines * width)
        out.append(tirx.For(last, 0, rest, tirx.ForKind.SERIAL, sequence(emit())))
    loops[depth] = saved
    return out


def _copies(
    nest: Nest, depth: Atom, points: PointEmitter, buffer: ir.Var, line: ir.Expr, width: int
) -> list[tirx.Stmt]:
    """Return what copies a line of each row, the number of the line being `line`."""
    loops, row = nest.position.loops, nest.dims[nest.strip_at - 1]
    first, lane, out = loops[row], tirx.Var("lane", INDEX), []
    loops[depth] = total([(width, line), (1, lane)])
    for number in nest.active:
        loops[row] = total([(1, first)], number)
        place = [total([(1, lane)], number * width)]
        copy = tirx.BufferStore(buffer, points.element(nest.group.packed), place)
        out.append(tirx.For(lane, 0, width, tirx.ForKind.VECTORIZED, copy))
    loops[row] = first
    return out
