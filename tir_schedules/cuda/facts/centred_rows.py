"""Sums of squares about a mean, which may be in parts with the total that the mean is made of.

s[i] = sum_k y(i, k); q[i] = sum_k (y(i, k) - c[i])^2, c made of s: `centred_parts` makes them.
"""

from __future__ import annotations

import functools
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
from ...kernel_ir.stage import Kernel, Stage, substitute_axes
from ...rewrites.inline import inline_into, is_identity

_DTYPES = ("float32", "float64")


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
