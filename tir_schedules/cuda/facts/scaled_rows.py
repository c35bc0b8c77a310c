"""Rows of exps less their largest element, whose sums may be in parts: `scaled_parts` makes them.

A row is what a softmax has: m[i] = max_k x(i, k); s[i] = sum_k exp(x(i, k) - m[i]) * v(i, k).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ...kernel_ir.expr import (
    NEVER_ABOVE_ZERO,
    Axis,
    AxisRef,
    Const,
    Expr,
    Load,
    Op,
    Tensor,
    walk,
)
from ...kernel_ir.stage import Kernel, Stage
from ...rewrites.inline import inline_into, is_identity

EXP = "call:tirx.exp"
_DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class ScaledRow:
    """A row by its largest element; `powers` are exps less that, `sums` those of them."""

    largest: Stage
    powers: tuple[Stage, ...]
    sums: tuple[Stage, ...]


@functools.lru_cache(maxsize=64)
def scaled_rows(kernel: Kernel) -> dict[Stage, ScaledRow]:
    """Return the rows of a kernel whose sums of exps may be in parts, by their largest elements."""
    found = {}
    for stage in kernel.stages:
        if (row := _row(stage, kernel)) is not None:
            found[stage] = row
    return found


def _row(largest: Stage, kernel: Kernel) -> ScaledRow | None:
    rule = largest.reduction
    if rule is None or rule.kind != "max" or largest.out.dtype not in _DTYPES:
        return None
    if len(largest.reduced) != 1 or not _by_axes(largest):
        return None
    readers = [stage for stage in kernel.stages if stage.reads(largest.out)]
    powers = tuple(s for s in readers if _is_power_stage(s, largest))
    sums = tuple(s for s in kernel.stages if _is_sum(s, largest, powers))
    read = tuple(p for p in powers if any(stage.reads(p.out) for stage in sums))
    return ScaledRow(largest, read, sums) if sums else None


def _by_axes(stage: Stage) -> bool:
    """Return whether what a stage makes is numbered by its spatial axes, one a dimension."""
    axes = [place.axis for place in stage.out_index if isinstance(place, AxisRef)]
    rest = (place for place in stage.out_index if not isinstance(place, AxisRef))
    moving = {axis for axis in stage.spatial if axis.extent > 1}
    return (
        moving <= set(axes)
        and len(set(axes)) == len(axes)
        and all(isinstance(place, Const) for place in rest)
    )


def _is_power_stage(stage: Stage, largest: Stage) -> bool:
    if stage.reduction is not None or not is_identity(stage) or not _is_power(stage.value, largest):
        return False
    along, (row,) = axes_along(stage, largest), largest.reduced
    return len(along) == 1 and along[0].extent == row.extent


def axes_along(power: Stage, largest: Stage) -> list[Axis]:
    """Return the axes of exps along which the element that they are less does not move."""
    bound = next(load for load in power.loads() if load.tensor is largest.out)
    return [axis for axis in power.axes if axis.extent > 1 and not moves(bound, axis)]


def _is_power(value: Expr, largest: Stage) -> bool:
    """Return whether an expression is exp(x - largest), of no more than 0."""
    if not isinstance(value, Op) or value.name != EXP:
        return False
    (mark,) = value.args
    if not isinstance(mark, Op) or mark.name != NEVER_ABOVE_ZERO:
        return False
    left, bound = mark.args[0].args
    return is_load(bound, largest.out) and not _reads(left, largest.out)


def _is_sum(stage: Stage, largest: Stage, powers: tuple[Stage, ...]) -> bool:
    """Return whether a stage sums exps of one row each, or their products with something else."""
    rule = stage.reduction
    if rule is None or rule.kind != "sum" or len(stage.reduced) != 1 or not _by_axes(stage):
        return False
    (axis,), (row,) = stage.reduced, largest.reduced
    if axis.extent != row.extent or stage.out.dtype not in _DTYPES:
        return False
    whole = stage
    for power in (p for p in powers if stage.reads(p.out)):
        whole = inline_into(whole, power)
    factors, divisors = factors_of(whole)
    terms = [factor for factor in factors if _reads(factor, largest.out)]
    if len(terms) != 1 or not _is_power(terms[0], largest):
        return False
    if any(_reads(divisor, largest.out) for divisor in divisors):
        return False
    # What is less its largest is the row's element at some place: at this one, if it moves along
    # the axis and the largest does not.
    below, bound = terms[0].args[0].args[0].args
    return not moves(bound, axis) and moves(below, axis)


def factors_of(stage: Stage) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """Return what a sum's terms are products of, and what all terms are divided by."""
    value, (axis,) = stage.value, stage.reduced
    product = isinstance(value, Op) and value.name == "Mul"
    factors, divisors = [], []
    for factor in value.args if product else (value,):
        divided = isinstance(factor, Op) and factor.name == "Div"
        if divided and isinstance(factor.args[1], Load) and not moves(factor.args[1], axis):
            factors.append(factor.args[0])
            divisors.append(factor.args[1])
        else:
            factors.append(factor)
    return tuple(factors), tuple(divisors)


def is_load(expr: Expr, tensor: Tensor) -> bool:
    return isinstance(expr, Load) and expr.tensor is tensor


def _reads(expr: Expr, tensor: Tensor) -> bool:
    return any(is_load(node, tensor) for node in walk(expr))


def moves(expr: Expr, axis: Axis) -> bool:
    return any(isinstance(node, AxisRef) and node.axis is axis for node in walk(expr))
