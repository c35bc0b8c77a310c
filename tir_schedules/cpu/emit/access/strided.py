"""Loads of every second element or so along the lanes: registers, of which shuffles pick.

Lanes that lie apart would be loaded and inserted one by one, two instructions each. All that lies
between them takes as many loads as the elements are apart, and a shuffle for each but the first.
"""

from __future__ import annotations

from tvm import ir, tirx

from ....analysis.iteration_space import Access, Atom, Node
from ....kernel_ir.expr import dtype_bytes
from ....tensor_ir.numbers import INDEX, ramp, total
from ...facts.shapes import SHAPES


def picks(access: Access, node: Node, along: Atom, width: int) -> bool:
    """Return whether lanes along an atom are picked: what lies between them is the tensor's too."""
    step = access.stride(along)
    if (
        step is None
        or step in (0, 1)
        or abs(step) > SHAPES.picked_apart
        or width < SHAPES.picked_lanes
    ):
        return False
    return dtype_bytes(access.tensor.dtype) > 1 and node.stays_inside(access)


def registers_of(lanes: int, step: int) -> list[tuple[int, dict[int, int]]]:
    """Return registers of `lanes` elements: where each begins, and which lanes are where in it.

    Places count from the lowest lane's element; no register goes beyond the highest one's.
    """
    lowest = min(0, (lanes - 1) * step)
    places = {lane: lane * step - lowest for lane in range(lanes)}
    last, out = (lanes - 1) * (abs(step) - 1), []
    for number in range(-(-(last + lanes) // lanes)):
        start = min(number * lanes, last)
        held = {lane: at - start for lane, at in places.items() if 0 <= at - start < lanes}
        places = {lane: at for lane, at in places.items() if lane not in held}
        out.append((start, held))
    return out


def pick(flat: ir.Var, first: ir.Expr, step: int, into: ir.Var, vector_bytes: int) -> tirx.Stmt:
    """Return the stores to all of `into` of elements `step` apart, from `flat[first]` on."""
    width, dtype = int(into.shape[0]), str(into.dtype)
    lanes = min(width, vector_bytes // dtype_bytes(dtype))
    stores: list[tirx.Stmt] = []
    for begin in range(0, width, lanes):
        lowest, value = begin * step + min(0, (lanes - 1) * step), None
        for start, held in registers_of(lanes, step):
            place = total([(1, first)], lowest + start)
            register = tirx.BufferLoad(flat, [ramp(place, lanes)])
            value = _merged(value, register, held, lanes)
        stores.append(tirx.BufferStore(into, value, [ramp(tirx.IntImm(INDEX, begin), lanes)]))
    return stores[0] if len(stores) == 1 else tirx.SeqStmt(stores)


def _merged(value: ir.Expr | None, register: ir.Expr, held: dict[int, int], lanes: int) -> ir.Expr:
    """Return the lanes of `value`, those that a register holds replaced."""
    if value is None:
        return tirx.Shuffle([register], [tirx.IntImm(INDEX, held.get(n, 0)) for n in range(lanes)])
    chosen = [lanes + held[n] if n in held else n for n in range(lanes)]
    return tirx.Shuffle([value, register], [tirx.IntImm(INDEX, n) for n in chosen])
