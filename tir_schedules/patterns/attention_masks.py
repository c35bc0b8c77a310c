"""Masks of attention: what may put a score so low that its key counts for nothing.

A softmax's argument is bounded over a range of scores by its values at both ends if it is monotone
in the score. That must hold of NaN too: where a score of the range makes NaN, the larger of the
two ends is NaN or +inf, never a number that looks low.
"""

from __future__ import annotations

import math

from ..analysis.iteration_space import Atom, Node
from ..kernel_ir.expr import AxisRef, Const, Expr, Load, Op, Tensor, walk
from .match_attention import Attention

_CHOICES = ("Select", "call:tirx.if_then_else")


def why_none_hidden(attention: Attention) -> str | None:
    """Return why no mask can be told to hide a block of keys, None if one can.

    Of `x * scale + mask[key]`, of the score x, the mask is looked at for x = -bound and bound.
    """
    at, scores = attention, attention.scores.stage.out
    reason = _why_unbounded(at.logit, scores)
    if reason is None and not moves_along(at.logit, at.largest, at.key, scores):
        return "nothing but the score differs from key to key"
    return reason


def hides_by_row(attention: Attention) -> bool:
    """Return whether a condition chooses, for each row, keys whose scores count.

    A mask that is added may be a bias that hides nothing; one alike for all rows is mostly padding.
    """
    at, scores = attention, attention.scores.stage.out
    parts = (e for e in walk(at.logit) if isinstance(e, Op) and e.name in _CHOICES)
    chosen = any(
        all(moves_along(e.args[0], at.largest, atom, scores) for atom in (at.row, at.key))
        for e in parts
    )
    return chosen and why_none_hidden(attention) is None


def moves_along(expr: Expr, node: Node, atom: Atom, scores: Tensor) -> bool:
    """Return whether anything in a node's expression but the scores differs along an atom."""
    if isinstance(expr, Load):
        return expr.tensor is not scores and node.reads[expr].stride(atom) != 0
    if isinstance(expr, AxisRef):
        return any(atom is a for a, _ in node.digits[expr.axis])
    return any(moves_along(e, node, atom, scores) for e in expr.children())


def _why_unbounded(expr: Expr, scores: Tensor) -> str | None:
    """Return why an expression is not bounded by its values at the ends of a range of scores.

    Products by a varying factor may be 0 * inf inside the range and opposite infinities at its
    ends: sums keep one of these +inf or make it NaN, a maximum or minimum would not.
    """
    if isinstance(expr, Load) or not _holds(expr, scores):
        return None
    assert isinstance(expr, Op)
    held = [_holds(arg, scores) for arg in expr.args]
    if expr.name in _CHOICES:
        if held[0]:
            return "the mask depends on the score"
    elif expr.name not in ("Add", "Sub", "Mul", "Div", "Min", "Max"):
        return f"{expr.name} of the score"
    elif sum(held) > 1:
        return f"{expr.name} of two scores"
    elif expr.name == "Div" and held[1]:
        return "a quotient by the score"
    elif expr.name in ("Min", "Max") and _is_scaled(expr, scores):
        return f"{expr.name} of a score times what may be infinite"
    reasons = (_why_unbounded(arg, scores) for arg in expr.args)
    return next((reason for reason in reasons if reason is not None), None)


def _holds(expr: Expr, scores: Tensor) -> bool:
    return any(isinstance(e, Load) and e.tensor is scores for e in walk(expr))


def _is_scaled(expr: Expr, scores: Tensor) -> bool:
    """Return whether a score is multiplied or divided by anything but a number."""
    parts = (e for e in walk(expr) if isinstance(e, Op) and e.name in ("Mul", "Div"))
    return any(_holds(e, scores) and not any(map(_is_number, e.args)) for e in parts)


def _is_number(expr: Expr) -> bool:
    return isinstance(expr, Const) and expr.value != 0 and math.isfinite(expr.value)
