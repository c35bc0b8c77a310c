"""Which parts of expressions are evaluated whenever they are, and which of these more than once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .expr import AxisRef, Const, Expr, Load, Op

BRANCH = "call:tirx.if_then_else"  # computes one of two values, and nothing of the other


def open_children(expr: Expr) -> tuple[Expr, ...]:
    """Return the operands that are evaluated whenever `expr` is; loads keep their indices."""
    if isinstance(expr, Load):
        return ()
    if isinstance(expr, Op) and expr.name == BRANCH:
        return expr.args[:1]
    return expr.children()


def used_again(roots: Iterable[Expr], is_known: Callable[[Expr], bool]) -> list[Expr]:
    """Return what the roots use more than once and is not yet known, operands before users."""
    uses: dict[Expr, int] = {}
    order: list[Expr] = []

    def visit(expr: Expr) -> None:
        if isinstance(expr, (Const, AxisRef)) or is_known(expr):
            return
        uses[expr] = uses.get(expr, 0) + 1
        if uses[expr] > 1:
            return
        for child in open_children(expr):
            visit(child)
        order.append(expr)

    for root in roots:
        visit(root)
    return [expr for expr in order if uses[expr] > 1]
