"""sigmoid(x) = e**x / (1 + e**x), written p / (p + 2**-n) with e**x = p * 2**n.

Numerator and denominator carry a common 2**-64, folded into the polynomial, so that neither
leaves the normal range while the quotient underflows gradually in the one division.
"""

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
)
from .bindings import low_bits_as_exponent as power_of_two
from .exponential import EXP, LN2_HIGH, LN2_LOW, LOG2_E

COMMON = 64


def sigmoid(lets: Bindings, x: Expr) -> Expr:
    """Return 1 / (1 + e**-x) of a float32 x: 0 at -inf, 1 at inf, NaN stays."""
    # Below -103.98 the result rounds to 0, above 17.4 to 1.
    x = lets.let("x", at_most(at_least(lets.let("x", x), -104.0), 20.0))
    magic = f32(ROUND_F32 + EXPONENT_BIAS - COMMON)
    rounded = lets.let("rounded", fma(x, f32(-LOG2_E), magic))
    minus_n = lets.let("minus_n", rounded - magic)
    r = lets.let("r", fma(minus_n, f32(LN2_LOW), fma(minus_n, f32(LN2_HIGH), x)))
    p = lets.let("p", horner(r, [c * 2.0**-COMMON for c in EXP]))
    return p / (p + power_of_two(rounded))
