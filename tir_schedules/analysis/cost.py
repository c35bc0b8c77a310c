"""What an expression costs to evaluate once, by op class."""

from __future__ import annotations

from .expr import NEVER_ABOVE_ZERO, Expr, Load, Op, walk

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


def is_data_dependent(expr: Expr) -> bool:
    """Return whether `expr`, an index, reads a tensor."""
    return any(isinstance(n, Load) for n in walk(expr))
