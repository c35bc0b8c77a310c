"""pow: 2**(y * log2|x|) in float64 lanes, with C99's special cases; short forms for constant y."""

import math

import ml_dtypes  # noqa: F401  (NumPy knows bfloat16 by name from here on)
import numpy as np
from tvm import tirx
from tvm.ir import Expr

from .bindings import (
    F32,
    INFINITY,
    NAN,
    SIGN_BIT,
    Bindings,
    absolute,
    at_least,
    at_most,
    bits,
    f32,
    fma,
    horner,
)
from .logarithm import normalised

F64 = "float64"
# scripts/fit_polynomials.py: "log2(1+r)/r", degree 11, and "exp2 f64", degree 6.
LOG2_1P = (
    -0.086345980565092,
    0.15485751920715893,
    -0.1569822619262555,
    0.1590014997021111,
    -0.17904695265344542,
    0.20609625601021103,
    -0.24050417409066088,
    0.2885406435713728,
    -0.36067280054767825,
    0.48089832072922534,
    -0.7213475252132064,
    1.4426950409393462,
)
EXP2 = (
    0.00015353361801482882,
    0.001339887442178285,
    0.00961843735748736,
    0.05550332471096223,
    0.24022647913635273,
    0.6931472028550819,
    1.0,
)
ROUND_F64 = 1.5 * 2.0**52
EXPONENT_BIAS_F64 = 1023
MANTISSA_BITS_F64 = 52


def power(lets: Bindings, x: Expr, y: Expr) -> Expr:
    """Return x**y of float32 x and y with the special cases of C99's powf (Annex F.10.4.4)."""
    x = lets.let("x", x)
    constant = constant_value(y)
    if constant is not None and (short := _short_form(lets, x, constant)) is not None:
        return short
    if constant is not None and math.isfinite(constant):
        whole, odd = constant.is_integer(), constant % 2 == 1
        magnitude = lets.let("magnitude", _magnitude(lets, x, f32(constant)))
        if odd:
            return _signed(magnitude, bits(x))
        return magnitude if whole else _real(x, magnitude)
    y = lets.let("y", y)
    whole = tirx.floor(y).equal(y)
    half = lets.let("half", y * f32(0.5))
    sign = tirx.Select(tirx.floor(half).equal(half), tirx.IntImm("uint32", 0), bits(x))
    one = tirx.Or(y.equal(f32(0.0)), absolute(x).equal(f32(1.0)))
    magnitude = tirx.Select(one, f32(1.0), _magnitude(lets, x, y))
    magnitude = lets.let("magnitude", magnitude)
    return tirx.Select(whole, _signed(magnitude, sign), _real(x, magnitude))


def constant_value(y: Expr) -> float | None:
    """Return a constant exponent, rounded to its type and seen through a cast, or None."""
    if isinstance(y, tirx.Cast):
        y = y.value
    if not isinstance(y, tirx.FloatImm | tirx.IntImm):
        return None
    return float(np.dtype(str(y.ty.dtype)).type(y.value))


def _short_form(lets: Bindings, x: Expr, y: float) -> Expr | None:
    """Return x**y by multiplications, divisions and square roots, at most 3 roundings, or None."""
    if y == 0.0:
        return f32(1.0)
    if y == 1.0:
        return x
    if y in (-1.0, -2.0):
        inverse = lets.let("inverse", f32(1.0) / x)
        return inverse if y == -1.0 else inverse * inverse
    if y in (2.0, 3.0, 4.0):
        square = lets.let("square", x * x)
        return {2.0: square, 3.0: square * x, 4.0: square * square}[y]
    if y in (0.5, -0.5):
        # fma(x, 1, 0) makes -0 +0 (TVM folds x + 0); C99 gives pow(-inf, 0.5) = inf, not NaN.
        root = tirx.sqrt(fma(x, f32(1.0), f32(0.0)))
        root = tirx.Select(x.equal(f32(-INFINITY)), f32(INFINITY), root)
        return root if y == 0.5 else f32(1.0) / root
    return None


def _magnitude(lets: Bindings, x: Expr, y: Expr) -> Expr:
    """Return |x|**y: the cast back to float32 rounds once, overflows and underflows by itself."""
    a = lets.let("a", absolute(x))
    e, r = normalised(lets, a)
    # +-inf as exponent carries |x| = 0 and inf (and a NaN) through the product with y.
    e = tirx.Select(a < f32(INFINITY), e, a)
    e = tirx.Select(a.equal(f32(0.0)), f32(-INFINITY), e)
    r = lets.let("r", tirx.Cast(F64, r))
    log2 = fma(r, horner(r, LOG2_1P), tirx.Cast(F64, e))
    z = lets.let("z", log2 * tirx.Cast(F64, y))
    z = lets.let("z", at_most(lets.let("z", at_least(z, -152.0)), 129.0))
    magic = tirx.FloatImm(F64, ROUND_F64 + EXPONENT_BIAS_F64)
    rounded = lets.let("rounded", z + magic)
    r = lets.let("r", z - (rounded - magic))
    field = bits(rounded, "uint64") << tirx.IntImm("uint64", MANTISSA_BITS_F64)
    return tirx.Cast(F32, horner(r, EXP2) * tirx.reinterpret(F64, field))


def _signed(magnitude: Expr, sign: Expr) -> Expr:
    """Return `magnitude` with the top bit of the uint32 `sign`."""
    top = tirx.bitwise_and(sign, tirx.IntImm("uint32", SIGN_BIT))
    return tirx.reinterpret(F32, tirx.bitwise_or(bits(magnitude), top))


def _real(x: Expr, magnitude: Expr) -> Expr:
    """Return |x|**y for a y that is no integer: NaN for finite x < 0."""
    undefined = tirx.And(x < f32(0.0), x > f32(-INFINITY))
    return tirx.Select(undefined, f32(NAN), magnitude)
