"""How large the scores of a streaming attention may be, by block, and whether values are finite.

A score is at most its query's sum of magnitudes times the largest magnitude of the block's keys.
"""

from __future__ import annotations

import numpy as np
from tvm import ir, tirx

from ....analysis.iteration_space import Atom, Node
from ....kernel_ir.expr import Expr
from ....tensor_ir.numbers import INDEX, constant, total
from ...plan.streaming_attention import StreamingAttention
from ..arithmetic.combiners import MAX, SUM, lane_tree
from ..lanes import Stmts, at, each_lane, load, loop, store, strips
from ..microkernel import accumulator, add_term
from ..nest import sequence
from .expr_at import Place, Places

_NONE = -1


class Magnitudes:
    """Emits magnitudes of a tile's packed `queries`, and those of all blocks of their batch.

    A task's tiles run through one batch after the other: keys and values are read once for each.
    """

    def __init__(self, form: StreamingAttention, places: Places, queries: ir.Var) -> None:
        self._form, self._places, self._queries = form, places, queries
        self._lanes, self._dtype = form.looked_lanes, form.attention.dtype
        self._finfo = np.finfo(self._dtype)
        blocks = form.whole_blocks + bool(form.last_keys)
        self._reach = tirx.decl_buffer((form.tile_rows,), self._dtype, "reach")
        self._keys = tirx.decl_buffer((blocks,), self._dtype, "largest_key")
        self._values = tirx.decl_buffer((blocks,), self._dtype, "largest_value")
        self._batch = tirx.decl_buffer((1,), INDEX, "measured")

    def open(self) -> Stmts:
        """Return what stands before a task's tiles: no batch has been measured."""
        buffers = (self._reach, self._keys, self._values, self._batch)
        return [*map(tirx.AllocBuffer, buffers), store(self._batch, at(_NONE))]

    def measure(self, tile: ir.Expr, here: Place) -> Stmts:
        """Emit the magnitudes of a tile's queries, and of keys and values of a new batch."""
        form, batch = self._form, tirx.Var("batch", INDEX)
        whole: Stmts = []
        if form.whole_blocks:

            def block(b: ir.Expr) -> Stmts:
                return self._block(here, b, form.block_keys)

            whole.append(loop("block", form.whole_blocks, block))
        if form.last_keys:
            whole += self._block(here, at(form.whole_blocks), form.last_keys)
        whole.append(store(self._batch, batch))
        fresh = tirx.NE(load(self._batch), batch)
        return [
            tirx.Bind(batch, tirx.FloorDiv(tile, at(form.tiles))),
            tirx.IfThenElse(fresh, sequence(whole), None),
            loop("r", form.tile_rows, self._query),
        ]

    def bound(self, block: ir.Expr, *row: ir.Expr) -> ir.Expr:
        """Return what a row's scores in a block are at most, with slack for what underflows."""
        tiny = self._form.attention.depth.extent * float(self._finfo.tiny)
        return load(self._reach, *row) * load(self._keys, block) + constant(tiny, self._dtype)

    def finite(self, block: ir.Expr) -> ir.Expr:
        """Return whether all values of a block are finite."""
        return self.is_finite(load(self._values, block))

    def is_finite(self, magnitude: ir.Expr) -> ir.Expr:
        return tirx.LE(magnitude, constant(float(self._finfo.max), self._dtype))

    def _query(self, row: ir.Expr) -> Stmts:
        """Emit the sum of a query's magnitudes, with slack for the rounding of its scores."""
        depth = self._form.attention.depth.extent
        folded, out = accumulator(constant(0.0, self._dtype), self._lanes, "folded")

        def strip(start: ir.Expr, width: int) -> Stmts:
            def lane(ln: ir.Expr) -> Stmts:
                part = tirx.abs(load(self._queries, (depth, row), start, ln))
                return [add_term(SUM, folded, part, ln)]

            return [each_lane(width, lane)]

        out += strips(depth, self._lanes, strip)
        tree, whole = lane_tree(SUM, folded, self._lanes)
        slack = constant(1.0 + 4.0 * depth * float(self._finfo.eps), self._dtype)
        return [*out, *tree, store(self._reach, whole * slack, row)]

    def _block(self, here: Place, block: ir.Expr, count: int) -> Stmts:
        """Emit the largest magnitudes of a block's keys and values; NaN is the largest."""
        a, start = self._form.attention, block * self._form.block_keys
        extents = {a.key: count, a.depth: a.depth.extent, a.column: a.column.extent}

        def largest(expr: Expr, node: Node, across: Atom, along: Atom, into: ir.Var) -> Stmts:
            folded, out = accumulator(constant(0.0, self._dtype), self._lanes, "folded")

            def line(n: ir.Expr) -> Stmts:
                def strip(begin: ir.Expr, width: int) -> Stmts:
                    def lane(ln: ir.Expr) -> Stmts:
                        place = {**here, across: n, along: total([(1, begin), (1, ln)])}
                        place[a.key] = total([(1, start), (1, place[a.key])])
                        part = tirx.abs(self._places.value(expr, node, place))
                        return [add_term(MAX, folded, part, ln)]

                    return [each_lane(width, lane)]

                return strips(extents[along], self._lanes, strip)

            out.append(loop("n", extents[across], line))
            tree, whole = lane_tree(MAX, folded, self._lanes)
            return [*out, *tree, store(into, whole, block)]

        axes = (a.key, a.depth) if self._form.turned else (a.depth, a.key)
        return [
            *largest(a.keys, a.scores, *axes, self._keys),
            *largest(a.value, a.values, a.key, a.column, self._values),
        ]
