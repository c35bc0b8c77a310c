"""The arithmetic of reductions: identities, combining two values, folding lanes."""

from __future__ import annotations

import math

from tvm import ir, tirx

from ....kernel_ir.stage import Reduction
from ....tensor_ir.numbers import INDEX, cast
from ....vector_math import nan_max, nan_min

MAX, SUM = Reduction("max", -math.inf), Reduction("sum", 0)


def combine(rule: Reduction, left: ir.Expr, right: ir.Expr) -> ir.Expr:
    if rule.kind == "sum":
        return tirx.Add(left, right)
    if rule.kind == "prod":
        return tirx.Mul(left, right)
    if rule.drops_nan:
        return tirx.Select(right > left, right, left)  # VMAXPS: its second operand if one is NaN
    if rule.kind in ("max", "min"):
        return (nan_max if rule.kind == "max" else nan_min)(left, right)
    return (tirx.And if rule.kind == "and" else tirx.Or)(left, right)


def kept(value: ir.Expr) -> ir.Expr:
    """Return a value as an accumulator has it: of bools TVM's lowering has no vectors in memory."""
    return cast(value, "int8") if str(value.ty.dtype).startswith("bool") else value


def held(rule: Reduction, acc: ir.Var, at: ir.Expr) -> ir.Expr:
    """Return what an accumulator holds at a lane."""
    value = tirx.BufferLoad(acc, [at])
    return cast(value, "bool") if rule.kind in ("and", "or") else value


def lane_tree(rule: Reduction, acc: ir.Var, width: int) -> tuple[list[tirx.Stmt], ir.Expr]:
    """Fold `width` lanes (a power of two) by halves, a fixed order of additions; return the result.

    The halves are shuffled out: loaded from their places, LLVM (GVN) forwards them as integers of
    half the vector's bits and then takes those apart lane by lane.
    """
    out: list[tirx.Stmt] = []
    dtype = str(acc.ty.dtype.dtype)
    while width > 1:
        whole = tirx.BufferLoad(acc, [_lanes(width)])
        width //= 2
        halves = []
        for first in (0, width):
            half = tirx.decl_buffer((width,), dtype, "half")
            lanes = [tirx.IntImm(INDEX, first + n) for n in range(width)]
            store = tirx.BufferStore(half, tirx.Shuffle([whole], lanes), [_lanes(width)])
            out += [tirx.AllocBuffer(half), store]
            halves.append(half)
        lane: ir.Expr = tirx.Var("lane", INDEX) if width > 1 else tirx.IntImm(INDEX, 0)
        value = kept(combine(rule, *(held(rule, half, lane) for half in halves)))
        acc = tirx.decl_buffer((width,), dtype, "folded")
        add = tirx.BufferStore(acc, value, [lane])
        out.append(tirx.AllocBuffer(acc))
        out.append(tirx.For(lane, 0, width, tirx.ForKind.VECTORIZED, add) if width > 1 else add)
    return out, held(rule, acc, tirx.IntImm(INDEX, 0))


def _lanes(width: int) -> ir.Expr:
    zero = tirx.IntImm(INDEX, 0)
    return tirx.Ramp(zero, tirx.IntImm(INDEX, 1), width) if width > 1 else zero
