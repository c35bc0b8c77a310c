"""log, log2, log10, log1p: x = 2**e * (1 + r), 1 + r in [sqrt(1/2), sqrt(2)), a polynomial in r."""

import math

from tvm import tirx
from tvm.ir import Expr

from .bindings import (
    EXPONENT_BIAS,
    F32,
    INFINITY,
    MANTISSA_BITS,
    NAN,
    Bindings,
    bits,
    f32,
    fma,
    horner,
)
from .exponential import LN2_HIGH, LN2_LOW, LOG2_E

# scripts/fit_polynomials.py: "log1p(r) = r + r^2 Q(r)", degree 7.
LOG1P = (
    0.08700401335954666,
    -0.14266932010650635,
    0.14914508163928986,
    -0.16577652096748352,
    0.199631005525589,
    -0.2500133514404297,
    0.3333390951156616,
    -0.5,
)
LOG10_E = math.log10(math.e)
LOG10_2_HIGH = 0.30102920532226562
LOG10_2_LOW = 7.9034151668e-07
SMALLEST_NORMAL = 2.0**-126
SUBNORMAL_SHIFT = 24
ROOT_HALF_BITS = 0x3F3504F3
ONE_BITS = 0x3F800000


def log(lets: Bindings, x: Expr) -> Expr:
    """Return ln x of a float32 x: -inf at +-0, NaN below 0, inf at inf."""
    x = lets.let("x", x)
    e, r = normalised(lets, x)
    high = fma(e, f32(LN2_HIGH), r + fma(e, f32(LN2_LOW), _curve(r)))
    return _at_the_limits(x, high)


def log2(lets: Bindings, x: Expr) -> Expr:
    """Return log2 x of a float32 x, with the limits of `log`."""
    x = lets.let("x", x)
    e, r = normalised(lets, x)
    return _at_the_limits(x, fma(r + _curve(r), f32(LOG2_E), e))


def log10(lets: Bindings, x: Expr) -> Expr:
    """Return log10 x of a float32 x, with the limits of `log`."""
    x = lets.let("x", x)
    e, r = normalised(lets, x)
    low = fma(r + _curve(r), f32(LOG10_E), e * f32(LOG10_2_LOW))
    return _at_the_limits(x, fma(e, f32(LOG10_2_HIGH), low))


def log1p(lets: Bindings, x: Expr) -> Expr:
    """Return ln(1 + x) of a float32 x: -inf at -1, NaN below, inf at inf, the sign of 0 stays."""
    x = lets.let("x", x)
    u = lets.let("u", f32(1.0) + x)
    lost = x - (u - f32(1.0))
    field, m = split(lets, u)
    e = lets.let("e", tirx.Cast(F32, field) - f32(EXPONENT_BIAS))
    # 2**(1 - e) rather than 2**-e: its exponent field never falls below 0.
    shift = (tirx.IntImm("int32", 255) - field) << tirx.IntImm("int32", MANTISSA_BITS)
    r = lets.let("r", fma(lost * tirx.reinterpret(F32, shift), f32(0.5), m - f32(1.0)))
    result = fma(e, f32(LN2_HIGH), r + fma(e, f32(LN2_LOW), _curve(r)))
    return tirx.Select(u.equal(f32(1.0)), x, _at_the_limits(u, result))


def split(lets: Bindings, x: Expr) -> tuple[Expr, Expr]:
    """Return (e + 127 as int32, m) with x = m * 2**e, m in [sqrt(1/2), sqrt(2)), x normal."""
    shifted = lets.let(
        "shifted", bits(x, "int32") + tirx.IntImm("int32", ONE_BITS - ROOT_HALF_BITS)
    )
    field = lets.let("field", shifted >> tirx.IntImm("int32", MANTISSA_BITS))
    mantissa = tirx.bitwise_and(shifted, tirx.IntImm("int32", (1 << MANTISSA_BITS) - 1))
    m = tirx.reinterpret(F32, mantissa + tirx.IntImm("int32", ROOT_HALF_BITS))
    return field, m


def normalised(lets: Bindings, x: Expr) -> tuple[Expr, Expr]:
    """Return float32 (e, r) with x = 2**e * (1 + r), x positive and finite, subnormal or not."""
    subnormal = x < f32(SMALLEST_NORMAL)
    normal = tirx.Select(subnormal, x * f32(2.0**SUBNORMAL_SHIFT), x)
    field, m = split(lets, lets.let("normal", normal))
    bias = tirx.Select(subnormal, f32(-EXPONENT_BIAS - SUBNORMAL_SHIFT), f32(-EXPONENT_BIAS))
    return lets.let("e", tirx.Cast(F32, field) + bias), lets.let("r", m - f32(1.0))


def _curve(r: Expr) -> Expr:
    """Return ln(1 + r) - r."""
    return r * r * horner(r, LOG1P)


def _at_the_limits(x: Expr, result: Expr) -> Expr:
    finite = tirx.Select(x < f32(INFINITY), result, x)
    outside = tirx.Select(x.equal(f32(0.0)), f32(-INFINITY), f32(NAN))
    return tirx.Select(x > f32(0.0), finite, outside)
