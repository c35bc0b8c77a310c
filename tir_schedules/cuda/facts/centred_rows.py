"""Sums of squares about a mean in parts, each about its own: what a block reads it reads once.

rewrite: s[i] = sum_k y(i, k); q[i] = sum_k (y(i, k) - c[i])^2  # c is made of s
      -> sp[p, i] = sum_k y(i, pk); mp[p, i] = sp[p, i] / n[p]
         qp[p, i] = sum_k (y(i, pk) - mp[p, i])^2
         q[i] = sum_p qp[p, i] + n[p] * (mp[p, i] - c[i])^2
That is so of any c, n[p] being the terms of a part. Source: Chan, Golub and LeVeque, Updating
formulae and a pairwise algorithm for computing sample variances (1979), equation 2.1.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...analysis.kernel_facts import is_large_contraction
from ...kernel_ir.expr import (
    Axis,
    AxisRef,
    Const,
    Expr,
    Load,
    Op,
    Tensor,
    loads,
    transform_loads,
    walk,
)
from ...kernel_ir.index import canonical
from ...kernel_ir.sharing import BRANCH
from ...kernel_ir.stage import Kernel, Reduction, Stage, fresh_axes, substitute_axes
from ...rewrites.inline import inline_into, is_identity
from ..plan.parts import Parts
from .cut import Cut

_DTYPES = ("float32", "float64")
_SUM = Reduction("sum", 0.0)


@dataclass(frozen=True)
class Square:
    """A sum of squares of `number - centre`, the total of the numbers, its row's place in that."""

    stage: Stage
    total: Stage
    number: Expr
    centre: Expr
    row: tuple[Expr, ...]


@functools.lru_cache(maxsize=64)
def centred_rows(kernel: Kernel) -> dict[Stage, tuple[Square, ...]]:
    """Return the sums of squares that may be in parts with a total, by the totals."""
    found: dict[Stage, tuple[Square, ...]] = {}
    for stage in kernel.stages:
        about = _about(stage, kernel)
        squares = () if about is None else (_square(stage, t, about, kernel) for t in kernel.stages)
        square = next((each for each in squares if each is not None), None)
        if square is not None:
            found[square.total] = (*found.get(square.total, ()), square)
    return found


def _about(stage: Stage, kernel: Kernel) -> tuple[Expr, Expr] | None:
    """Return the number and the centre whose difference a stage sums the squares of."""
    if not _is_sum(stage):
        return None
    moving = _spelt_out(stage.value, kernel, stage.reduced)
    if not isinstance(moving, Op) or moving.name != "Mul" or moving.args[0] != moving.args[1]:
        return None
    apart = moving.args[0]
    if not isinstance(apart, Op) or apart.name != "Sub" or _moves(apart.args[1], stage.reduced):
        return None
    return apart.args


def _is_sum(stage: Stage) -> bool:
    rule = stage.reduction
    if rule is None or rule.kind != "sum" or is_large_contraction(stage):
        return False
    return stage.out.dtype in _DTYPES


def _square(stage: Stage, total: Stage, about: tuple[Expr, Expr], kernel: Kernel) -> Square | None:
    """Return a sum of squares about what is made of a total of the same numbers; None if not so."""
    number, centre = about
    extents = [[axis.extent for axis in each.reduced] for each in (stage, total)]
    if not _is_sum(total) or not is_identity(total) or extents[0] != extents[1]:
        return None
    made = _spelt_out(centre, kernel, ())
    places = {load.index for load in loads(made) if load.tensor is total.out}
    if len(places) != 1 or total.out.dtype != stage.out.dtype:
        return None
    (row,) = places
    along = zip(total.reduced, map(AxisRef, stage.reduced), strict=True)
    summed = substitute_axes(
        _spelt_out(total.value, kernel, total.reduced), {**_axes_at(total, row), **dict(along)}
    )
    if _plain(summed) != _plain(number):
        return None
    return Square(stage, total, number, centre, row)


def _axes_at(total: Stage, row: tuple[Expr, ...]) -> dict[Axis, Expr]:
    """Return the spatial axes of a total at one of its places."""
    at: dict[Axis, Expr] = {axis: Const(0, "int64") for axis in total.spatial if axis.extent == 1}
    pairs = zip(total.out_index, row, strict=True)
    return at | {place.axis: i for place, i in pairs if isinstance(place, AxisRef)}


def _spelt_out(value: Expr, kernel: Kernel, along: Sequence[Axis]) -> Expr:
    """Return a value with the stages in it that are no sums.

    Where axes are given, only those whose elements move along them.
    """
    stage = Stage("", Tensor("", (), value.dtype), (), (), value)
    for made in reversed(kernel.stages):
        read = [load for load in stage.loads() if load.tensor is made.out]
        moving = not along or all(_moves(load, along) for load in read)
        if read and moving and made.reduction is None and is_identity(made):
            stage = inline_into(stage, made)
    return stage.value


def _plain(value: Expr) -> Expr:
    """Return a value whose loads are equal if they are of the same elements."""

    def rule(node: Expr) -> Expr | None:
        if not isinstance(node, Load):
            return None
        return Load(node.tensor, tuple(canonical(index) for index in node.index))

    return transform_loads(value, rule)


def _moves(expr: Expr, axes: Sequence[Axis]) -> bool:
    return any(isinstance(node, AxisRef) and node.axis in axes for node in walk(expr))


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
