"""exp and exp2: 2**n times a polynomial on half a binade either side of 0.

Below 2**-115 the power of two is built 2**64 too large and the product scaled down once, so that
a subnormal result is rounded once; above, 2**(n-1) and a factor of 2 keep n = 128 in range.
Clamping the argument makes overflow and underflow come out as inf and 0 with no further test.
VSCALEFPS, where the target has it, does all of that by itself (LLVM 22 makes it of `llvm.ldexp`).
There exp2 needs no clamp above either: VCVTPS2DQ gives -2**31 beyond the integers, the polynomial
of what is left overflows, and infinity times any power of two is infinity.
"""

import math

from tvm import tirx
from tvm.ir import Expr

from .bindings import (
    EXPONENT_BIAS,
    ROUND_F32,
    Bindings,
    at_least,
    at_most,
    f32,
    fma,
    horner,
    nearest_integer,
    times_power_of_two,
)
from .bindings import low_bits_as_exponent as power_of_two

# scripts/fit_polynomials.py: "exp" and "exp2", degree 5.
EXP = (
    0.008312659338116646,
    0.041890617460012436,
    0.16667114198207855,
    0.4999922811985016,
    1.0,
    1.0,
)
EXP2 = (
    0.001326970523223281,
    0.009671391919255257,
    0.0555071085691452,
    0.24022245407104492,
    0.6931470036506653,
    1.0,
)
LOG2_E = math.log2(math.e)
# ln 2 = LN2_HIGH + LN2_LOW; the first has 15 bits, so its product with an exponent is exact.
LN2_HIGH = 0.693145751953125
LN2_LOW = 1.428606765330187e-06
GRADUAL = 64
# The powers of two that arguments are clamped to: where underflow needs no microcode. A product
# between 2**-126 and 2**-159 takes 90 cycles instead of 3, a VSCALEFPS down to 2**-500 takes 155
# (rocketlake-class): clamped just below 2**-150, each masked score of a softmax took that.
_FAR, _FAR_SCALED = -165.0, -740.0


def exp(lets: Bindings, x: Expr) -> Expr:
    """Return e**x of a float32 x: exp(-inf) = 0, exp(x > 88.73) = inf, NaN stays."""
    if lets.scalef and lets.never_above_zero:
        return _exp_at_most_one(lets, x)
    # 88.73 overflows already and -103.98 is the last to give a subnormal.
    x = at_least(lets.let("x", x), round(_lowest(lets) / LOG2_E))
    x = lets.let("x", x if lets.never_above_zero else at_most(x, 89.0))
    if lets.scalef:
        whole = lets.let("whole", nearest_integer(x * f32(LOG2_E)))
        n = lets.let("n", tirx.Cast("float32", whole))
        return times_power_of_two(horner(_below(lets, x, n), EXP), whole)
    tiny = x < f32(-80.0)
    magic = lets.let("magic", _magic(tiny))
    rounded = lets.let("rounded", fma(x, f32(LOG2_E), magic))
    n = lets.let("n", rounded - magic)
    return _scale(horner(_below(lets, x, n), EXP), rounded, tiny)


def _exp_at_most_one(lets: Bindings, x: Expr) -> Expr:
    """Return e**x of an x that is at most 0, or NaN: with x log2(e) rounded once.

    Off by up to 0.62 |x| 2**-23 of itself more than `exp`: less than half an ulp of the 1 that is
    the largest of such values.
    """
    power = lets.let("power", x * f32(LOG2_E))
    whole = lets.let("whole", nearest_integer(power))
    r = lets.let("r", power - tirx.Cast("float32", whole))
    result = times_power_of_two(horner(r, EXP2), whole)
    return tirx.Select(power < f32(_FAR_SCALED), f32(0.0), result)


def exp2(lets: Bindings, x: Expr) -> Expr:
    """Return 2**x of a float32 x: exp2(-inf) = 0, exp2(x >= 128) = inf, NaN stays."""
    x = lets.let("x", at_least(lets.let("x", x), _lowest(lets)))
    if lets.scalef:
        whole = lets.let("whole", nearest_integer(x))
        r = lets.let("r", x - tirx.Cast("float32", whole))
        return times_power_of_two(horner(r, EXP2), whole)
    x = lets.let("x", at_most(x, 128.25))
    tiny = x < f32(-115.0)
    magic = lets.let("magic", _magic(tiny))
    rounded = lets.let("rounded", x + magic)
    r = lets.let("r", x - (rounded - magic))
    return _scale(horner(r, EXP2), rounded, tiny)


def _lowest(lets: Bindings) -> float:
    return _FAR_SCALED if lets.scalef else _FAR


def _below(lets: Bindings, x: Expr, n: Expr) -> Expr:
    """Return x - n ln 2, rounded twice."""
    return lets.let("r", fma(n, f32(-LN2_LOW), fma(n, f32(-LN2_HIGH), x)))


def _magic(tiny: Expr) -> Expr:
    """Round to n and leave the exponent field of 2**(n-1), or of 2**(n-1+64), in the low bits."""
    normal = ROUND_F32 + EXPONENT_BIAS - 1
    return tirx.Select(tiny, f32(normal + GRADUAL), f32(normal))


def _scale(mantissa: Expr, rounded: Expr, tiny: Expr) -> Expr:
    rest = tirx.Select(tiny, f32(2.0 ** (1 - GRADUAL)), f32(2.0))
    return mantissa * power_of_two(rounded) * rest
