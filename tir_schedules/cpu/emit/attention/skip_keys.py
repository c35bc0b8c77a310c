"""Leave out keys that count for nothing in a streaming attention, as a mask hides them.

Scores are bounded, and the softmax's argument is so by what it is at both ends of their range.
Where this stays so far below a row's shift that its exponential is 0, a key adds 0 to the row's
total, and to its sums 0 times its value: nothing, if that is finite.
"""

from __future__ import annotations

import math

import numpy as np
from tvm import ir, tirx

from ....kernel_ir.stage import Reduction
from ....tensor_ir.numbers import INDEX, constant, total
from ....tensor_ir.reductions import identity
from ...plan.streaming_attention import StreamingAttention
from ..arithmetic.combiners import MAX, SUM, combine, lane_tree
from ..lanes import Stmts, at, each_lane, load, loop, single, store, strips
from ..microkernel import accumulator, add_term
from ..nest import sequence
from .expr_at import Place, Places
from .magnitudes import Magnitudes

_MIN = Reduction("min", math.inf)
_UNDERFLOWS = {"float32": -104.0, "float64": -746.0}  # exp of it is 0, a rounded half of the least


class Skip:
    """Emits how many keys of a block each register tile sees: up to the last that counts.

    `shift` is what the online softmax has subtracted of a row so far.
    """

    def __init__(
        self, form: StreamingAttention, places: Places, queries: ir.Var, shift: ir.Var
    ) -> None:
        self._form, self._places, self._shift = form, places, shift
        self._lanes, self._dtype = form.looked_lanes, form.attention.dtype
        self._least = constant(float(np.finfo(self._dtype).min), self._dtype)
        self.magnitudes = Magnitudes(form, places, queries)
        self._high = tirx.decl_buffer((form.rows,), self._dtype, "high")
        self._under = tirx.decl_buffer((form.rows,), self._dtype, "under")
        self._seen = tirx.decl_buffer((form.blocks,), INDEX, "seen")
        self._most = tirx.decl_buffer((1,), INDEX, "most_seen")

    def open(self) -> Stmts:
        """Return what stands before a task's tiles."""
        buffers = (self._high, self._under, self._seen, self._most)
        return [*map(tirx.AllocBuffer, buffers), *self.magnitudes.open()]

    def seen(self, tile: ir.Expr) -> ir.Expr:
        """Return how many keys of the block that was looked at a register tile sees."""
        return load(self._seen, tile)

    def most_seen(self) -> ir.Expr:
        """Return how many keys any of the register tiles sees."""
        return load(self._most)

    def look(self, here: Place, first: ir.Expr, block: ir.Expr, count: int) -> Stmts:
        """Emit how many keys of a block are seen, strip by strip from the last one."""
        form, lanes = self._form, self._lanes
        whole, rest = divmod(count, lanes)

        def rows(tile: ir.Expr) -> Stmts:
            row = tirx.Var("row", INDEX)
            place = {**here, form.attention.row: first + row}
            unseen = tirx.EQ(load(self._seen, tile), at(0))

            def strip(begin: ir.Expr, width: int) -> tirx.Stmt:
                looked = self._strip(place, block, begin, width, tile)
                return tirx.IfThenElse(unseen, sequence(looked), None)

            def backwards(number: ir.Expr) -> Stmts:
                return [strip((at(whole - 1) - number) * lanes, lanes)]

            def bounds(r: ir.Expr) -> Stmts:
                return self._bounds(place, block, row, r, min(count, lanes))

            finite = tirx.Select(self.magnitudes.finite(block), at(0), at(count))
            out = [tirx.Bind(row, tile * form.rows), store(self._seen, finite, tile)]
            out.append(loop("r", form.rows, bounds))
            if rest:
                out.append(strip(at(whole * lanes), rest))
            if whole:
                out.append(loop("strip", whole, backwards))
            most = tirx.Max(load(self._most), load(self._seen, tile))
            return [*out, store(self._most, most)]

        return [store(self._most, at(0)), loop("rows", form.blocks, rows)]

    def _bounds(self, here: Place, block: ir.Expr, row: ir.Expr, r: ir.Expr, width: int) -> Stmts:
        """Emit what a row's scores are at most, NaN if that is none, and its shift, negated.

        Of a row that has seen -inf alone it is what the first keys of the block will make of it,
        or the least number: below that, -inf alone is far.
        """
        bound, out = single("bound", self.magnitudes.bound(block, row, r), self._dtype)
        known = self.magnitudes.is_finite(load(bound))
        high = tirx.Select(known, load(bound), constant(math.nan, self._dtype))
        shift, opened = single("shift", load(self._shift, row, r), self._dtype)
        looked, floor = self._floor(here, block, r, width)
        unknown = tirx.LT(load(shift), self._least)
        raised = sequence([*looked, store(shift, floor)])
        usable = combine(MAX, load(shift), self._least)
        under = store(self._under, usable * constant(-1.0, self._dtype), r)
        out += [store(self._high, high, r), *opened]
        return [*out, tirx.IfThenElse(unknown, raised, None), under]

    def _floor(self, here: Place, block: ir.Expr, r: ir.Expr, width: int) -> tuple[Stmts, ir.Expr]:
        """Return what the softmax's largest argument among a block's first keys is at least."""
        folded, out = accumulator(identity(MAX, self._dtype), self._lanes, "folded")

        def piece(begin: ir.Expr, wide: int) -> Stmts:
            def lane(ln: ir.Expr) -> Stmts:
                least = combine(_MIN, *self._ends(here, block, r, total([(1, begin), (1, ln)])))
                return [add_term(MAX, folded, least, ln)]

            return [each_lane(wide, lane)]

        out += strips(width, self._lanes, piece)
        tree, floor = lane_tree(MAX, folded, self._lanes)
        return [*out, *tree], floor

    def _strip(
        self, here: Place, block: ir.Expr, begin: ir.Expr, width: int, tile: ir.Expr
    ) -> Stmts:
        """Emit whether any row of a register tile sees a strip of keys; NaN is seen."""
        counted = tirx.decl_buffer((self._lanes,), INDEX, "counted")
        none = each_lane(self._lanes, lambda lane: [store(counted, at(0), lane)])

        def row(r: ir.Expr) -> Stmts:
            def hidden(end: ir.Expr) -> ir.Expr:
                underflows = constant(_UNDERFLOWS[self._dtype], self._dtype)
                return tirx.LE(end + load(self._under, r), underflows)

            def piece(offset: ir.Expr, wide: int) -> Stmts:
                def lane(ln: ir.Expr) -> Stmts:
                    key = total([(1, begin), (1, offset), (1, ln)])
                    both = tirx.And(*map(hidden, self._ends(here, block, r, key)))
                    more = load(counted, ln) + tirx.Select(both, at(0), at(1))
                    return [store(counted, more, ln)]

                return [each_lane(wide, lane)]

            return strips(width, self._lanes, piece)

        tree, seen = lane_tree(SUM, counted, self._lanes)
        upto = tirx.Select(tirx.EQ(seen, at(0)), at(0), total([(1, begin)], width))
        looked = loop("r", self._form.rows, row)
        return [tirx.AllocBuffer(counted), none, looked, *tree, store(self._seen, upto, tile)]

    def _ends(
        self, here: Place, block: ir.Expr, r: ir.Expr, key: ir.Expr
    ) -> tuple[ir.Expr, ir.Expr]:
        """Return the softmax's argument at both ends of the scores of a row and a block's key."""
        a = self._form.attention
        place = {**here, a.row: here[a.row] + r}
        place[a.key] = total([(self._form.block_keys, block), (1, key)])

        def end(sign: float) -> ir.Expr:
            score = load(self._high, r) * constant(sign, self._dtype)
            given = {a.scores.stage.out: score}
            return self._places.value(a.logit, a.largest, place, given)

        return end(1.0), end(-1.0)
