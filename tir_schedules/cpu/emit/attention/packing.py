"""Pack the operands of a streaming attention's first product as its register tiles read them."""

from __future__ import annotations

from tvm import ir, tirx

from ....kernel_ir.expr import loads
from ....tensor_ir.numbers import total
from ...plan.streaming_attention import StreamingAttention
from ..lanes import Stmts, at, each_lane, load, loop, store, strips
from ..transposed import transposed
from .expr_at import Place, Places
from .rows import Keys


def pack_queries(
    form: StreamingAttention, places: Places, into: ir.Var, here: Place, first: ir.Expr
) -> Stmts:
    """Copy a tile's queries, rows of whole depth one after the other."""
    attention, depth = form.attention, form.attention.depth.extent
    reads = [attention.scores.reads[ld] for ld in loads(attention.query)]
    contiguous = all(a.stride(attention.depth) in (0, 1) for a in reads)

    def row(r: ir.Expr) -> Stmts:
        def strip(start: ir.Expr, width: int) -> Stmts:
            def lane(ln: ir.Expr) -> Stmts:
                d = total([(1, start), (1, ln)])
                place = {**here, attention.row: first + r, attention.depth: d}
                value = places.value(attention.query, attention.scores, place)
                return [store(into, value, (depth, r), (1, d))]

            return [each_lane(width, lane)]

        return strips(depth, form.wide if contiguous else 1, strip)

    return [loop("r", form.tile_rows, row)]


def pack_keys(
    form: StreamingAttention, places: Places, into: ir.Var, here: Place, start: ir.Expr, keys: Keys
) -> Stmts:
    """Copy a block of keys to panels: steps of the depth one below the other, keys in lanes."""
    packer = _Turned(form, places, into, here) if form.turned else None
    size = form.attention.depth.extent * form.lanes

    def panel(p: ir.Expr) -> Stmts:
        key = total([(1, start), (1, panel_start(form, p, keys.count))])
        if packer is not None:
            return packer.panel(p * size, key)
        return _panel(form, places, into, here, p * size, key)

    return [loop("p", keys.panels(form.lanes), panel)]


def panel_start(form: StreamingAttention, panel: ir.Expr, count: int) -> ir.Expr:
    """Return the first key of a block's panel; the last panel overlaps the one before."""
    start = panel * form.lanes
    return tirx.Min(start, at(count - form.lanes)) if count % form.lanes else start


def _panel(
    form: StreamingAttention,
    places: Places,
    into: ir.Var,
    here: Place,
    panel: ir.Expr,
    key: ir.Expr,
) -> Stmts:
    attention, lanes = form.attention, form.lanes

    def step(d: ir.Expr) -> Stmts:
        def lane(ln: ir.Expr) -> Stmts:
            place = {**here, attention.key: key + ln, attention.depth: d}
            value = places.value(attention.keys, attention.scores, place)
            return [store(into, value, (1, panel), (lanes, d), (1, ln))]

        return [each_lane(lanes, lane)]

    return [loop("d", attention.depth.extent, step)]


class _Turned:
    """Packs keys that are contiguous along the depth: squares transposed in registers."""

    def __init__(self, form: StreamingAttention, places: Places, into: ir.Var, here: Place) -> None:
        self._form, self._places, self._into, self._here = form, places, into, here
        depth = form.attention.depth.extent
        self._side = min(form.wide, form.lanes, 1 << (depth.bit_length() - 1))

    def panel(self, panel: ir.Expr, key: ir.Expr) -> Stmts:
        """Emit the squares of a panel; the last ones down overlap those before."""
        side, depth = self._side, self._form.attention.depth.extent

        def across(number: ir.Expr) -> Stmts:
            def down(block: ir.Expr) -> Stmts:
                d = block * side
                d = tirx.Min(d, at(depth - side)) if depth % side else d
                return self._square(panel, total([(1, key), (side, number)]), number * side, d)

            return [loop("d", -(-depth // side), down)]

        return [loop("n", self._form.lanes // side, across)]

    def _square(self, panel: ir.Expr, key: ir.Expr, lane: ir.Expr, d: ir.Expr) -> Stmts:
        attention, lanes = self._form.attention, self._form.lanes
        rows = [tirx.decl_buffer((self._side,), attention.dtype, "row") for _ in range(self._side)]
        out: Stmts = [tirx.AllocBuffer(row) for row in rows]
        for number, row in enumerate(rows):

            def read(ln: ir.Expr, number: int = number, row: ir.Var = row) -> Stmts:
                place = {**self._here, attention.key: key + number, attention.depth: d + ln}
                return [store(row, self._places.value(attention.keys, attention.scores, place), ln)]

            out.append(each_lane(self._side, read))
        shuffles, columns = transposed(rows)
        out += shuffles
        for number, column in enumerate(columns):

            def write(ln: ir.Expr, number: int = number, column: ir.Var = column) -> Stmts:
                parts = [(1, panel), (lanes, d), (1, lane), (1, ln), (1, at(number * lanes))]
                return [store(self._into, load(column, ln), *parts)]

            out.append(each_lane(self._side, write))
        return out
