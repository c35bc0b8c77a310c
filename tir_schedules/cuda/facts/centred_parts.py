"""Sums of squares about a mean in parts, each about its own: what a block reads it reads once.

rewrite: s[i] = sum_k y(i, k); q[i] = sum_k (y(i, k) - c[i])^2  # c is made of s
      -> sp[p, i] = sum_k y(i, pk); mp[p, i] = sp[p, i] / n[p]
         qp[p, i] = sum_k (y(i, pk) - mp[p, i])^2
         q[i] = sum_p qp[p, i] + n[p] * (mp[p, i] - c[i])^2
That is so of any c, n[p] being the terms of a part. Source: Chan, Golub and LeVeque, Updating
formulae and a pairwise algorithm for computing sample variances (1979), equation 2.1.
"""

from __future__ import annotations

import math

from ...kernel_ir.expr import Axis, AxisRef, Const, Expr, Load, Op, Tensor
from ...kernel_ir.sharing import BRANCH
from ...kernel_ir.stage import Reduction, Stage, fresh_axes, substitute_axes
from ..plan.parts import Parts
from .centred_rows import Square
from .cut import Cut

_SUM = Reduction("sum", 0.0)


class CentredParts:
    """The stages of a total in parts, and of the squares about it: each has its axes to itself."""

    def __init__(self, total: Stage, parts: Tensor, along: int, cut: Cut) -> None:
        self._total, self._parts, self._along, self._cut = total, parts, along, cut
        self._mean = Parts(f"{total.out.name}_means", parts.shape, parts.dtype)

    def mean(self) -> Stage:
        """Return the mean of each part, made of its sum."""
        part, own = self._part(), {a: Axis(a.name, a.extent) for a in self._total.spatial}
        refs = {axis: AxisRef(copy) for axis, copy in own.items()}
        index = (AxisRef(part), *(substitute_axes(i, refs) for i in self._total.out_index))
        value = Op("Div", (Load(self._parts, index), self._terms(part)), self._mean.dtype)
        return Stage(self._mean.name, self._mean, (part, *own.values()), index, value)

    def squares(self, square: Square) -> list[Stage]:
        """Return the squares of each part about its mean, and their sum about the centre."""
        stage, part = square.stage, self._part()
        axis = stage.reduced[self._along]
        inner = Axis(axis.name, self._cut.size, is_reduce=True)
        moved = substitute_axes(square.number, {axis: self._cut.place(part, inner)})
        mean = Load(self._mean, (AxisRef(part), *square.row))
        apart = self._cut.guarded(_less(moved, mean), part, inner, 0.0)
        made = Parts(f"{stage.out.name}_parts", (part.extent, *stage.out.shape), stage.out.dtype)
        axes = (part, *(inner if a is axis else a for a in stage.axes))
        index = (AxisRef(part), *stage.out_index)
        first = Stage(made.name, made, axes, index, _squared(apart), _SUM)
        return [fresh_axes(first), fresh_axes(self._merged(square, made))]

    def _merged(self, square: Square, made: Tensor) -> Stage:
        stage, part = square.stage, self._part(is_reduce=True)
        mean = Load(self._mean, (AxisRef(part), *square.row))
        between = Op("Mul", (self._terms(part), _squared(_less(mean, square.centre))), made.dtype)
        own = Load(made, (AxisRef(part), *stage.out_index))
        value = Op("Add", (own, between), made.dtype)
        return Stage(stage.name, stage.out, (*stage.spatial, part), stage.out_index, value, _SUM)

    def _part(self, is_reduce: bool = False) -> Axis:
        return Axis(f"{self._total.reduced[self._along].name}_part", self._cut.count, is_reduce)

    def _terms(self, part: Axis) -> Expr:
        """Return how many terms a part has: the last one may have fewer."""
        dtype, cut = self._mean.dtype, self._cut
        others = math.prod(a.extent for a in self._total.reduced)
        others //= self._total.reduced[self._along].extent
        last = cut.extent - (cut.count - 1) * cut.size
        if last == cut.size:
            return Const(float(cut.size * others), dtype)
        whole = Op("LT", (AxisRef(part), Const(cut.count - 1, "int64")), "bool")
        terms = (Const(float(size * others), dtype) for size in (cut.size, last))
        return Op(BRANCH, (whole, *terms), dtype)


def _less(one: Expr, other: Expr) -> Expr:
    return Op("Sub", (one, other), one.dtype)


def _squared(value: Expr) -> Expr:
    return Op("Mul", (value, value), value.dtype)
