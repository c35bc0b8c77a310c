"""Emit attention in one pass over blocks of keys, as a `StreamingAttention` says.

for tile in parallel:
    queries = packed query
    for block of keys:
        panels = packed keys
        for rows of a register tile:
            scores = queries @ panels
            weights, factor = online softmax of the scores
            sums = sums * factor + weights @ values
    result = sums / total
"""

from __future__ import annotations

import math

from tvm import ir, tirx

from ....tensor_ir.numbers import INDEX, constant, total
from ...plan.kernel_plan import Plan
from ..access.storage import Storage
from ..lanes import Stmts, at, each_lane, load, loop, store, strips
from ..microkernel import product
from ..nest import sequence
from ..tiles import over_tiles, tile_position
from .expr_at import Place, Places
from .packing import pack_keys, pack_queries, panel_start
from .rows import Keys, Rows, Running
from .skip_keys import Skip


def emit_streaming(plan: Plan, storage: Storage) -> tirx.Stmt:
    """Return the loops of a plan's streaming form."""
    return _Emitter(plan, storage).emit()


class _Emitter:
    def __init__(self, plan: Plan, storage: Storage) -> None:
        form = plan.streaming
        self._plan, self._form, self._at = plan, form, form.attention
        self._places = Places(storage)
        depth, columns = self._at.depth.extent, self._at.column.extent
        self._queries = self._buffer("queries", form.tile_rows * depth)
        panels = -(-form.most_keys // form.lanes)
        self._panels = self._buffer("panels", panels * depth * form.lanes)
        self._scores = self._buffer("scores", form.rows * form.most_keys)
        self._sums = self._buffer("sums", form.tile_rows * columns)
        self._running = Running(
            self._buffer("shift", form.tile_rows),
            self._buffer("total", form.tile_rows),
            self._buffer("factor", form.rows),
        )
        self._rows = Rows(form, self._places, self._scores, self._running)
        self._skip: Skip | None = None
        if form.masked:
            self._skip = Skip(form, self._places, self._queries, self._running.shift)

    def _buffer(self, name: str, elements: int) -> ir.Var:
        return tirx.decl_buffer((elements,), self._at.dtype, name)

    def emit(self) -> tirx.Stmt:
        form, row = self._form, self._at.row
        number, first = tirx.Var("tile", INDEX), tirx.Var("first", INDEX)
        extents = {a: a.extent for a in self._at.batch} | {row: form.tiles}
        binds, here = tile_position(number, extents)
        start = here.pop(row) * form.tile_rows
        if row.extent % form.tile_rows:
            start = tirx.Min(start, at(row.extent - form.tile_rows))
        body = [*binds, tirx.Bind(first, start), *self._open()]
        body += pack_queries(form, self._places, self._queries, here, first)
        if self._skip is not None:
            body += self._skip.magnitudes.measure(number, here)
        if form.whole_blocks:

            def block(b: ir.Expr) -> Stmts:
                return self._block(here, first, b, form.block_keys)

            body.append(loop("block", form.whole_blocks, block))
        if form.last_keys:
            body += self._block(here, first, at(form.whole_blocks), form.last_keys)
        body += self._finish(here, first)
        running = self._running
        buffers = [self._queries, self._panels, self._scores, self._sums]
        buffers += [running.shift, running.total, running.factor]
        allocs: Stmts = [tirx.AllocBuffer(b) for b in buffers]
        if self._skip is not None:
            allocs += self._skip.open()
        return over_tiles(math.prod(extents.values()), number, allocs, sequence(body), self._plan)

    def _open(self) -> Stmts:
        """Start the rows of a tile: no keys seen."""
        rows, columns = self._form.tile_rows, self._at.column.extent
        return [
            *self._fill(self._running.shift, rows, -math.inf),
            *self._fill(self._running.total, rows, 0.0),
            *self._fill(self._sums, rows * columns, 0.0),
        ]

    def _fill(self, buffer: ir.Var, count: int, value: float) -> Stmts:
        number = constant(value, self._at.dtype)

        def strip(start: ir.Expr, width: int) -> Stmts:
            return [each_lane(width, lambda lane: [store(buffer, number, start, lane)])]

        return strips(count, self._form.wide, strip)

    def _block(self, here: Place, first: ir.Expr, number: ir.Expr, count: int) -> Stmts:
        """Emit a block of keys, for one register tile's rows after the other."""
        form, skip = self._form, self._skip
        start = number * form.block_keys

        def rows(block: ir.Expr) -> Stmts:
            row = tirx.Var("row", INDEX)
            keys = Keys(count, None if skip is None else skip.seen(block))

            def weigh(r: ir.Expr) -> Stmts:
                place = {**here, self._at.row: first + row + r}
                return self._rows.weigh(place, row + r, r, start, keys)

            bind = tirx.Bind(row, block * form.rows)
            weighed = loop("r", form.rows, weigh)
            body = [bind, *self._products(row, keys), weighed]
            body += self._add(here, row, start, keys)
            return body if skip is None else [_if_any(keys, body)]

        every = Keys(count, None if skip is None else skip.most_seen())
        packed = pack_keys(form, self._places, self._panels, here, start, every)
        body = [*packed, loop("rows", form.blocks, rows)]
        if skip is None:
            return body
        return [*skip.look(here, first, number, count), _if_any(every, body)]

    def _products(self, row: ir.Expr, keys: Keys) -> Stmts:
        """Emit the products of a register tile's queries with a block's keys."""
        form, depth = self._form, self._at.depth.extent
        size = depth * form.lanes

        def panel(p: ir.Expr) -> Stmts:
            accs, out = product(
                form.rows,
                form.lanes,
                depth,
                self._at.dtype,
                lambda r, d: load(self._queries, (depth, row + r), d),
                lambda d, lane: load(self._panels, (size, p), (form.lanes, d), lane),
            )
            key = panel_start(form, p, keys.count)
            for r, acc in enumerate(accs):

                def keep(lane: ir.Expr, r: int = r, acc: ir.Var = acc) -> Stmts:
                    line = at(r * form.most_keys)
                    return [store(self._scores, load(acc, lane), line, key, lane)]

                out.append(each_lane(form.lanes, keep))
            return out

        return [loop("p", keys.panels(form.lanes), panel)]

    def _add(self, here: Place, row: ir.Expr, start: ir.Expr, keys: Keys) -> Stmts:
        """Add the block's values, weighted, to the sums of a register tile's rows."""
        form, attention, columns = self._form, self._at, self._at.column.extent

        def strip(begin: ir.Expr, width: int) -> Stmts:
            def value(k: ir.Expr, lane: ir.Expr) -> ir.Expr:
                column = total([(1, begin), (1, lane)])
                place = {**here, attention.key: start + k, attention.column: column}
                return self._places.value(attention.value, attention.values, place)

            def weight(r: int, k: ir.Expr) -> ir.Expr:
                return load(self._scores, at(r * form.most_keys), k)

            accs, out = product(form.rows, width, keys.each(), attention.dtype, weight, value)
            for r, acc in enumerate(accs):

                def add(lane: ir.Expr, r: int = r, acc: ir.Var = acc) -> Stmts:
                    parts = [(columns, row + r), begin, lane]
                    before = load(self._sums, *parts) * load(self._running.factor, at(r))
                    return [store(self._sums, before + load(acc, lane), *parts)]

                out.append(each_lane(width, add))
            return out

        return strips(columns, form.column_lanes, strip)

    def _finish(self, here: Place, first: ir.Expr) -> Stmts:
        """Emit the quotients of a tile's sums and totals, and what stands behind them."""
        attention, columns = self._at, self._at.column.extent
        result, made = attention.result, attention.values.stage.out

        def row(r: ir.Expr) -> Stmts:
            def strip(begin: ir.Expr, width: int) -> Stmts:
                def lane_of(lane: ir.Expr) -> Stmts:
                    column = total([(1, begin), (1, lane)])
                    place = {**here, attention.row: first + r, attention.column: column}
                    sums = load(self._sums, (columns, r), column)
                    value = tirx.Div(sums, load(self._running.total, r))
                    if result is not attention.values:
                        given = {made: value}
                        value = self._places.value(result.stage.value, result, place, given)
                    return [self._places.store(result, value, place)]

                return [each_lane(width, lane_of)]

            return strips(columns, self._form.wide, strip)

        return [loop("r", self._form.tile_rows, row)]


def _if_any(keys: Keys, body: Stmts) -> tirx.Stmt:
    """Emit what is done for keys that are seen."""
    return tirx.IfThenElse(tirx.GT(keys.each(), at(0)), sequence(body), None)
