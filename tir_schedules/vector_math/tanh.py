"""tanh(x) = sign(x) * m / (m + 2) with m = expm1(2|x|), which keeps its digits near 0."""

import math

from tvm.ir import Expr

from .bindings import (
    EXPONENT_BIAS,
    ROUND_F32,
    Bindings,
    absolute,
    at_most,
    f32,
    fma,
    horner,
    with_sign_of,
)
from .bindings import low_bits_as_exponent as power_of_two

# scripts/fit_polynomials.py: "expm1(2r)/r", degree 5.
EXPM1_2R = (
    0.08877245336771011,
    0.26772069931030273,
    0.6666789650917053,
    1.3333237171173096,
    1.9999998807907104,
    2.0,
)


def tanh(lets: Bindings, x: Expr) -> Expr:
    """Return tanh of a float32 x: the sign of 0 and NaN stay, +-1 from |x| > 9.02."""
    x = lets.let("x", x)
    a = lets.let("a", at_most(lets.let("a", absolute(x)), 10.0))
    magic = f32(ROUND_F32 + EXPONENT_BIAS)
    rounded = lets.let("rounded", fma(a, f32(2.0 * math.log2(math.e)), magic))
    # One term of ln 2 is enough: what its rounding does to m is below 2**-30 of tanh.
    r = lets.let("r", fma(rounded - magic, f32(-0.5 * math.log(2.0)), a))
    scale = lets.let("scale", power_of_two(rounded))
    m = lets.let("m", fma(r * horner(r, EXPM1_2R), scale, scale - f32(1.0)))
    return with_sign_of(m / (m + f32(2.0)), x)
