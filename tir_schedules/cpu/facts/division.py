"""Divide many lanes by one value with a reciprocal and its remainder, rounded as a division is.

A vector division takes as long as 5 (Zen 5) to 23 (Xeon of the Ice Lake line) multiply-adds, the
figures of `tvm-stitch calibrate`. With r = 1 / s known, q = x * r is at most two units off, and
q + (x - q * s) * r is the rounded quotient (Markstein, "Computation of elementary functions on the
IBM RISC System/6000", 1990, theorem 3). A tiny s is scaled up, x along with it, so that r is
finite; where x, s or q is infinite or s is 0 the correction is NaN and q is right by itself, as it
is where the quotient is a zero, which has a sign.
"""

from __future__ import annotations

from collections.abc import Callable

from ...kernel_ir.expr import Const, Expr, Load, Op, rebuild, transform

# Below 2**-tiny a divisor is scaled by 2**tiny: half of the exponents' range.
_TINY = {"float32": 64, "float64": 512}
BY_RECIPROCAL = frozenset(_TINY)
OPERATIONS = 6  # that a register of quotients takes


def by_reciprocals(value: Expr, settled: Callable[[Expr, Expr], bool]) -> Expr:
    """Return `value` with x / s in multiply-adds wherever `settled(x / s, s)`.

    Branches keep their divisions: nothing in them is computed ahead of the lanes.
    """

    def rule(expr: Expr) -> Expr | None:
        if isinstance(expr, Load):
            return expr
        if not isinstance(expr, Op):
            return None
        if expr.name == "call:tirx.if_then_else":
            return rebuild(expr, (transform(expr.args[0], rule), *expr.args[1:]))
        if expr.name != "Div" or expr.dtype not in _TINY or not settled(expr, expr.args[1]):
            return None
        return _quotient(transform(expr.args[0], rule), expr.args[1])

    return transform(value, rule)


def _quotient(x: Expr, s: Expr) -> Expr:
    dtype, tiny = s.dtype, _TINY[s.dtype]
    one, factor = Const(1.0, dtype), Const(2.0**tiny, dtype)
    if isinstance(s, Const):
        if not 2.0**-tiny <= abs(s.value) <= 2.0**tiny:
            return Op("Div", (x, s), dtype)
    else:
        small = Op("LT", (_call("fabs", s), Const(2.0**-tiny, dtype)), "bool")
        scale = Op("Select", (small, factor, one), dtype)
        x, s = Op("Mul", (x, scale), dtype), Op("Mul", (s, scale), dtype)
    reciprocal = Op("Div", (one, s), dtype)
    quotient = Op("Mul", (x, reciprocal), dtype)
    minus = Op("Mul", (s, Const(-1.0, dtype)), dtype)
    remainder = _call("fma", quotient, minus, x)
    corrected = _call("fma", remainder, reciprocal, quotient)
    usual = Op("GT", (_call("fabs", corrected), Const(0.0, dtype)), "bool")
    return Op("Select", (usual, corrected, quotient), dtype)


def _call(name: str, *args: Expr) -> Op:
    return Op(f"call:tirx.{name}", args, args[0].dtype)
