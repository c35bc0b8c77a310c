"""What an expression costs to evaluate once, by op class."""

from __future__ import annotations

from .expr import NEVER_ABOVE_ZERO, Const, Expr, Load, Op, walk

_TRANSCENDENTAL = """exp exp2 exp10 log log2 log10 log1p tanh sigmoid erf pow sin cos tan asin acos
    atan sinh cosh asinh acosh atanh atan2 hypot fmod"""
EXPENSIVE = frozenset(f"call:tirx.{name}" for name in _TRANSCENDENTAL.split())
FREE = frozenset(("Cast", "call:tirx.reinterpret", NEVER_ABOVE_ZERO))


def value_ops(expr: Expr) -> list[Op]:
    """Return the distinct operations on values; index arithmetic inside loads does not count."""
    out: list[Op] = []
    seen: set[Expr] = set()
    stack = [expr]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, Load):
            continue
        if isinstance(node, Op):
            out.append(node)
        stack.extend(node.children())
    return out


def branches(expr: Expr) -> list[Expr]:
    """Return the values that `expr` has at the positions it tells apart, alone if it is one.

    A chain Select(i == 0, a, Select(i == 1, b, c)) of an index i has a, b and c.
    """
    out: list[Expr] = []
    while isinstance(expr, Op) and expr.name == "Select" and _is_position(expr.args[0]):
        out.append(expr.args[1])
        expr = expr.args[2]
    return [*out, expr]


def _is_position(condition: Expr) -> bool:
    """Return whether a condition compares a position with a number."""
    if not isinstance(condition, Op) or condition.name != "EQ":
        return False
    place, number = condition.args
    known = isinstance(number, Const) and number.dtype.startswith("int")
    return known and not is_data_dependent(place)


def is_data_dependent(expr: Expr) -> bool:
    """Return whether `expr`, an index, reads a tensor."""
    return any(isinstance(n, Load) for n in walk(expr))
