"""erf(x) = sign(x) * (1 - 2**(t * h(t))), t = |x|, h(t) = log2(erfc(t)) / t a polynomial on [0, 4].

The power is taken as 2**v - 1 directly, so small arguments need no branch of their own.
"""

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

# scripts/fit_polynomials.py: "log2(erfc(t))/t", degree 7.
LOG2_ERFC = (
    -5.974913074169308e-05,
    0.0005573159432969987,
    -0.0018280596705153584,
    -0.00026524762506596744,
    0.027852285653352737,
    -0.14832158386707306,
    -0.9184446930885315,
    -1.6279070377349854,
)
# "(2^r-1)/r", degree 5.
EXP2M1 = (
    0.00015384577272925526,
    0.001338742091320455,
    0.0096183056011796,
    0.05550367385149002,
    0.24022649228572845,
    0.6931471824645996,
)


def erf(lets: Bindings, x: Expr) -> Expr:
    """Return erf of a float32 x: the sign of 0 and NaN stay, +-1 from |x| > 3.92."""
    x = lets.let("x", x)
    t = lets.let("t", at_most(lets.let("t", absolute(x)), 4.0))
    v = lets.let("v", t * horner(t, LOG2_ERFC))
    magic = f32(ROUND_F32 + EXPONENT_BIAS)
    rounded = lets.let("rounded", v + magic)
    r = lets.let("r", v - (rounded - magic))
    scale = lets.let("scale", power_of_two(rounded))
    one_minus_power = r * horner(r, [-c for c in EXP2M1])
    return with_sign_of(fma(one_minus_power, scale, f32(1.0) - scale), x)
