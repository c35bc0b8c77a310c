"""A softmax's weight by what it computes: an exp of no more than 0 by the sum of these."""

from __future__ import annotations

from .expr import NEVER_ABOVE_ZERO, Expr, Load, Op
from .sign import Match
from .stage import Stage


def softmax_bound(weight: Expr, total: Stage) -> Load | None:
    """Return what a weight exp(x - bound) / total is off by, `total` being the sum of such exps.

    `mark_signs` has seen to it that the bound is the largest x of a row. None if it is no softmax.
    """
    if not isinstance(weight, Op) or weight.name != "Div":
        return None
    part, whole = weight.args
    if not isinstance(whole, Load) or whole.tensor is not total.out:
        return None
    if not isinstance(part, Op) or part.name != "call:tirx.exp":
        return None
    (mark,) = part.args
    if not isinstance(mark, Op) or mark.name != NEVER_ABOVE_ZERO:
        return None
    bound = mark.args[0].args[1]
    return bound if Match(total, whole).holds(total.value, part) else None
