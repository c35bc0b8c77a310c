"""Building blocks of the vector functions: Let chains, fused multiply-add, bits, NaN-safe clamps.

LLVM turns each of these into one vector instruction (AVX2 and up). Two traps they avoid:
TVM folds `x == x` to true and lowers `!=` to an ordered compare, so neither detects a NaN; and
signed and unsigned integer sums carry no-wrap flags, so only sums that cannot wrap are written.
"""

from collections.abc import Sequence

import numpy as np
from tvm import tirx
from tvm.ir import Expr

F32 = "float32"
INFINITY = float("inf")
NAN = float("nan")
SIGN_BIT = 0x80000000
# Adding 1.5 * 2**23 rounds a float32 to an integer, left in the low bits of the sum.
ROUND_F32 = 12582912.0
EXPONENT_BIAS = 127
MANTISSA_BITS = 23


class Bindings:
    """The Let chain of one expression: `let` binds a subexpression, `close` wraps the result.

    Comparisons are repeated, not bound: TVM aborts on a Let whose value is a bool vector.
    `scalef`: the target scales by powers of two in one instruction (AVX-512's VSCALEFPS).
    `never_above_zero`: what a function is called on is at most 0, or NaN.
    """

    def __init__(self, scalef: bool = False, never_above_zero: bool = False) -> None:
        self.scalef, self.never_above_zero = scalef, never_above_zero
        self._bound: list[tuple[tirx.Var, Expr]] = []

    def let(self, name: str, value: Expr) -> Expr:
        if isinstance(value, tirx.Var | tirx.FloatImm | tirx.IntImm):
            return value
        var = tirx.Var(name, value.ty)
        self._bound.append((var, value))
        return var

    def close(self, result: Expr) -> Expr:
        for var, value in reversed(self._bound):
            result = tirx.Let(var, value, result)
        return result


def f32(value: float) -> tirx.FloatImm:
    """Return a constant rounded to float32: a FloatImm keeps the float64 it is given."""
    return tirx.FloatImm(F32, float(np.float32(value)))


def fma(a: Expr, b: Expr, c: Expr) -> Expr:
    """Return a * b + c, rounded once where the target has FMA."""
    return tirx.call_intrin(a.ty.dtype, "tirx.fma", a, b, c)


def horner(x: Expr, coefficients: Sequence[float]) -> Expr:
    """Return the polynomial in x, coefficients given highest power first."""
    dtype = x.ty.dtype
    first, *rest = (tirx.FloatImm(dtype, c) for c in coefficients)
    result: Expr = first
    for c in rest:
        result = fma(result, x, c)
    return result


def absolute(x: Expr) -> Expr:
    return tirx.call_intrin(x.ty.dtype, "tirx.fabs", x)


def at_least(x: Expr, low: float) -> Expr:
    """Return max(x, low), NaN where x is NaN."""
    bound = tirx.FloatImm(x.ty.dtype, low)
    return tirx.Select(bound > x, bound, x)


def at_most(x: Expr, high: float) -> Expr:
    """Return min(x, high), NaN where x is NaN."""
    bound = tirx.FloatImm(x.ty.dtype, high)
    return tirx.Select(bound < x, bound, x)


def bits(x: Expr, dtype: str = "uint32") -> Expr:
    return tirx.reinterpret(dtype, x)


def low_bits_as_exponent(rounded: Expr) -> Expr:
    """Return the float32 whose exponent field is the low byte of `rounded`'s bits."""
    return tirx.reinterpret(F32, bits(rounded) << tirx.IntImm("uint32", MANTISSA_BITS))


def nearest_integer(x: Expr) -> Expr:
    """Return the float32 x as the nearest int32, ties to even; the least int32 of NaN."""
    return tirx.call_llvm_pure_intrin("int32", "llvm.lrint", x)


def times_power_of_two(mantissa: Expr, n: Expr) -> Expr:
    """Return mantissa * 2**n of an int32 n, rounded once."""
    return tirx.call_llvm_pure_intrin(F32, "llvm.ldexp", mantissa, n)


def with_sign_of(magnitude: Expr, x: Expr) -> Expr:
    """Return `magnitude`, whose sign bit is clear, with the sign bit of x (both float32)."""
    sign = tirx.bitwise_and(bits(x), tirx.IntImm("uint32", SIGN_BIT))
    return tirx.reinterpret(F32, tirx.bitwise_or(bits(magnitude), sign))
