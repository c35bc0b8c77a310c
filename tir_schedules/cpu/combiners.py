"""The arithmetic of reductions: identities, combining two values, folding lanes."""

from __future__ import annotations

import math

from tvm import ir, tirx

from ..analysis.stage import Reduction
from ..vector_math import nan_max, nan_min
from .emit_expr import INDEX, constant


def identity(rule: Reduction, dtype: str) -> ir.Expr:
    """Return the start value; -inf for a float max, where TVM starts from the lowest finite."""
    if dtype.startswith(("float", "bfloat")) and rule.kind in ("max", "min"):
        return constant(-math.inf if rule.kind == "max" else math.inf, dtype)
    return constant(rule.identity, dtype)


def combine(rule: Reduction, left: ir.Expr, right: ir.Expr) -> ir.Expr:
    if rule.kind == "sum":
        return tirx.Add(left, right)
    if rule.kind == "prod":
        return tirx.Mul(left, right)
    if rule.kind in ("max", "min"):
        return (nan_max if rule.kind == "max" else nan_min)(left, right)
    return (tirx.And if rule.kind == "and" else tirx.Or)(left, right)


def lane_tree(rule: Reduction, acc: ir.Var, width: int) -> list[tirx.Stmt]:
    """Fold `width` lanes (a power of two) into lane 0 by halves: a fixed order of additions."""
    out: list[tirx.Stmt] = []
    while width > 1:
        width //= 2
        lane: ir.Expr = tirx.Var("lane", INDEX) if width > 1 else tirx.IntImm(INDEX, 0)
        value = combine(rule, tirx.BufferLoad(acc, [lane]), tirx.BufferLoad(acc, [lane + width]))
        store = tirx.BufferStore(acc, value, [lane])
        out.append(tirx.For(lane, 0, width, tirx.ForKind.VECTORIZED, store) if width > 1 else store)
    return out
