"""Sums of products whose terms are zero beyond some bounds: convolutions of padded images."""

from __future__ import annotations

import functools
import math

from ..kernel_ir.expr import Const, Expr, Op
from ..kernel_ir.stage import Stage

_CHOICE = "call:tirx.if_then_else"
_COMPARE = frozenset(("LT", "LE", "GT", "GE"))


@functools.lru_cache(maxsize=1 << 12)
def padded_sum(stage: Stage) -> tuple[Expr, tuple[Op, ...]] | None:
    """Return a term without its bounds, and the comparisons that bound the terms that count.

    None if the stage is no sum of `if_then_else(bounds, x * y, 0)`, nor of products with such a
    choice of one factor: zero times a factor that may be infinite or NaN is not left out.
    """
    if stage.reduction is None or stage.reduction.kind != "sum":
        return None
    value = stage.value
    if (whole := _bounded(value)) is not None:
        return whole
    if not isinstance(value, Op) or value.name != "Mul":
        return None
    for side, factor in enumerate(value.args):
        found = _bounded(factor)
        if found is not None and _is_finite(value.args[1 - side]):
            inside, bounds = found
            args = (inside, value.args[1]) if side == 0 else (value.args[0], inside)
            return Op("Mul", args, value.dtype, value.extra), bounds
    return None


def _is_finite(factor: Expr) -> bool:
    """Return whether an expression is never infinite nor NaN."""
    if isinstance(factor, Op) and factor.name == "Cast":
        return _is_finite(factor.args[0])
    if isinstance(factor, Const):
        return math.isfinite(factor.value)
    return not factor.dtype.startswith(("float", "bfloat"))


def _bounded(factor: Expr) -> tuple[Expr, tuple[Op, ...]] | None:
    if not isinstance(factor, Op):
        return None
    if factor.name == "Cast":
        found = _bounded(factor.args[0])
        if found is None:
            return None
        return Op("Cast", (found[0],), factor.dtype, factor.extra), found[1]
    if factor.name != _CHOICE:
        return None
    condition, inside, outside = factor.args
    bounds = _conjunction(condition)
    if bounds is None or not isinstance(outside, Const) or outside.value != 0:
        return None
    return inside, bounds


def _conjunction(condition: Expr) -> tuple[Op, ...] | None:
    """Return the comparisons that are all true where the condition is, None if it has others."""
    if not isinstance(condition, Op):
        return None
    if condition.name in _COMPARE:
        return (condition,)
    if condition.name != "And":
        return None
    parts = [_conjunction(arg) for arg in condition.args]
    return None if None in parts else tuple(c for part in parts for c in part)
