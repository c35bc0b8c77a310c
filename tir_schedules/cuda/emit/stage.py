"""Loading a tile along the lines of a tensor, for threads that go across them."""

from __future__ import annotations

from collections.abc import Mapping

from tvm import ir, tirx

from ...kernel_ir.expr import Expr
from ...tensor_ir.numbers import INDEX, ramp, total
from ..facts.accesses import vector_width
from ..plan.axes import Axis
from ..plan.nest import Staged
from .code import both, guarded, number, sequence
from .places import Places
from .point import Point
from .storage import Storage


def stage(
    staged: Staged, storage: Storage, blocks: Mapping[Axis, ir.Expr], thread: ir.Var
) -> list[tirx.Stmt]:
    """Return what loads a tile; a barrier is to follow."""
    point = Point(storage.phase, staged.nest(), blocks, thread)
    out = _element(staged, storage, point)
    out = guarded(both([*point.spares(), *_conditions(point, staged)]), out)
    for spread in reversed(staged.spreads):
        if spread.trips > 1:
            var = point.trips[spread]
            out = [tirx.For(var, 0, spread.trips, tirx.ForKind.UNROLLED, sequence(out))]
    return out


def _conditions(point: Point, staged: Staged) -> list[ir.Expr]:
    condition = point.exists(staged.spreads)
    return [] if condition is None else [condition]


def _element(staged: Staged, storage: Storage, point: Point) -> list[tirx.Stmt]:
    for spread in staged.spreads:
        if spread.trips > 1:
            point.trips[spread] = tirx.Var("trip", INDEX)
    access = staged.node.reads[staged.load]
    places = Places(storage.phase, point, staged.node.digits, _unread)
    shared, flat = storage.staged[staged], storage.flat[staged.load.tensor]
    wide = next((s for s in staged.spreads if s.width > 1), None)
    if wide is None:
        value = tirx.BufferLoad(flat, [places.offset(access)])
        return [tirx.BufferStore(shared, value, [place(staged, point)])]
    atom = wide.axis.view([a for a, s in access.strides.items() if s])[-1]
    step, out = min(wide.width, vector_width(access, atom)), []
    array = storage.local(f"{staged.load.tensor.name}_here", wide.width, staged.load.dtype)
    for lane in range(0, wide.width, step):
        point.lane = number(lane)
        value = tirx.BufferLoad(flat, [ramp(places.offset(access), step)])
        out.append(tirx.BufferStore(array, value, [ramp(number(lane), step)]))
    for lane in range(wide.width):
        point.lane = number(lane)
        value = tirx.BufferLoad(array, [number(lane)])
        out.append(tirx.BufferStore(shared, value, [place(staged, point)]))
    point.lane = number(0)
    return out


def place(staged: Staged, point: Point) -> ir.Expr:
    """Return where the element of a point is in the tile."""
    *lines, along = (spread.axis for spread in staged.spreads)
    parts, step = [(1, point.inside(along))], staged.pitch
    for axis in reversed(lines):
        parts.append((step, point.inside(axis)))
        step *= axis.block
    return total(parts)


def _unread(expr: Expr) -> ir.Expr:
    raise AssertionError(f"{expr} is not affine")
