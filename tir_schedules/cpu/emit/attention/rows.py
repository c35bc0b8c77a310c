"""Turn a row's scores into weights, with the totals of an online softmax.

Source: Milakov & Gimelshein, arXiv 1805.02867, algorithm 3, a block of scores at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx

from ....kernel_ir.stage import Reduction
from ....tensor_ir.numbers import constant, total
from ....tensor_ir.reductions import identity
from ...plan.streaming_attention import StreamingAttention
from ..arithmetic.combiners import MAX, SUM, combine, lane_tree
from ..lanes import Stmts, at, each_lane, load, single, store, strips
from ..microkernel import accumulator, add_term
from .expr_at import Place, Places


@dataclass(frozen=True)
class Keys:
    """`count` keys of a block, of which the first `seen` are looked at, or all."""

    count: int
    seen: ir.Expr | None = None

    def each(self) -> ir.Expr:
        """Return how many are looked at."""
        return at(self.count) if self.seen is None else self.seen

    def panels(self, lanes: int) -> ir.Expr:
        """Return how many panels of `lanes` these are."""
        if self.seen is None:
            return at(-(-self.count // lanes))
        return tirx.FloorDiv(self.seen + at(lanes - 1), at(lanes))


@dataclass(frozen=True)
class Running:
    """What a tile's rows have seen: `shift` is subtracted from scores, `total` sums their weights.

    `factor` is what earlier sums of a register tile's rows are multiplied by.
    """

    shift: ir.Var
    total: ir.Var
    factor: ir.Var


class Rows:
    """Emits the softmax of rows of `scores`, `lanes` at a time."""

    def __init__(
        self, form: StreamingAttention, places: Places, scores: ir.Var, running: Running
    ) -> None:
        self._form, self._places, self._scores = form, places, scores
        self._running, self._lanes = running, form.looked_lanes
        self._dtype = form.attention.dtype

    def weigh(self, here: Place, row: ir.Expr, r: ir.Expr, start: ir.Expr, keys: Keys) -> Stmts:
        """Emit one row of a register tile: `row` in its tile, `r` in the register tile."""
        base = r * self._form.most_keys
        looked, largest = self._look(here, base, start, keys)
        shifted, shift, factor = self._shift(row, largest)
        weighed, sums = self._exponentials(base, shift, keys)
        running = self._running
        whole = load(running.total, row) * load(factor) + sums
        kept = [store(running.factor, load(factor), r), store(running.total, whole, row)]
        return [*looked, *shifted, *weighed, *kept]

    def _look(
        self, here: Place, base: ir.Expr, start: ir.Expr, keys: Keys
    ) -> tuple[Stmts, ir.Expr]:
        """Scale and mask scores where they are; return their largest."""
        attention = self._form.attention

        def logit(column: ir.Expr, score: ir.Expr) -> ir.Expr:
            place = {**here, attention.key: total([(1, start), (1, column)])}
            given = {attention.scores.stage.out: score}
            return self._places.value(attention.logit, attention.largest, place, given)

        return self._replace(base, keys, logit, MAX)

    def _shift(self, row: ir.Expr, largest: ir.Expr) -> tuple[Stmts, ir.Var, ir.Var]:
        """Raise a row's shift to its largest score yet, and return what scales its sums down.

        It is above that by the logarithm of the number of keys: weights add up to at most 1, so
        that sums overflow only where their quotients do.
        """
        running, dtype = self._running, self._dtype
        above = largest + constant(math.log(self._form.attention.key.extent), dtype)
        new, raised = single("new", combine(MAX, load(running.shift, row), above), dtype)
        # Of a row that has seen -inf alone the weights are exp(-inf - 0), not exp(-inf - -inf).
        empty = tirx.LT(load(new), constant(float(np.finfo(dtype).min), dtype))
        usable = tirx.Select(empty, constant(0.0, dtype), load(new))
        used, chosen = single("used", usable, dtype)
        node = self._form.attention.values
        scale = self._places.exp_below(load(running.shift, row), load(used), node)
        factor, scaled = single("scale", scale, dtype)
        kept = store(running.shift, load(new), row)
        return [*raised, *chosen, *scaled, kept], used, factor

    def _exponentials(self, base: ir.Expr, shift: ir.Var, keys: Keys) -> tuple[Stmts, ir.Expr]:
        """Replace scores by their weights; return the sum of these."""
        node = self._form.attention.values

        def weight(_: ir.Expr, score: ir.Expr) -> ir.Expr:
            return self._places.exp_below(score, load(shift), node)

        return self._replace(base, keys, weight, SUM)

    def _replace(
        self,
        base: ir.Expr,
        keys: Keys,
        value: Callable[[ir.Expr, ir.Expr], ir.Expr],
        rule: Reduction,
    ) -> tuple[Stmts, ir.Expr]:
        """Replace scores by `value(column, score)`; return what all of these combine to."""
        folded, out = accumulator(identity(rule, self._dtype), self._lanes, "folded")

        def strip(begin: ir.Expr, width: int) -> Stmts:
            one = tirx.decl_buffer((width,), self._dtype, "one")

            def lane(ln: ir.Expr) -> Stmts:
                column = total([(1, begin), (1, ln)])
                made = value(column, load(self._scores, (1, base), column))
                return [
                    store(one, made, ln),
                    store(self._scores, load(one, ln), (1, base), column),
                    add_term(rule, folded, load(one, ln), ln),
                ]

            return [tirx.AllocBuffer(one), each_lane(width, lane)]

        out += strips(keys.count, self._lanes, strip, keys.seen)
        tree, whole = lane_tree(rule, folded, self._lanes)
        return [*out, *tree], whole
