"""PyTorch's element-wise operators that TVM's importer lacks, or computes without an argument."""

from __future__ import annotations

import math

from tvm import relax

from .emitted import Emitted, by_name

Operand = relax.Expr | float


def elu(ops: Emitted, x: relax.Expr, alpha: float, scale: float, input_scale: float) -> relax.Expr:
    """rewrite: elu(x, a, s, t) -> s * where(x > 0, x, a * (exp(x * t) - 1)), and so selu"""
    grown = ops.subtract(ops.exp(ops.multiply(x, ops.const(input_scale))), ops.const(1))
    below = ops.multiply(grown, ops.const(alpha * scale))
    above = ops.multiply(x, ops.const(scale))
    return ops.where(ops.greater(x, ops.const(0)), above, below)


def exp2(ops: Emitted, x: relax.Expr) -> relax.Expr:
    return ops.power(ops.const(2), ops.cast(x))


def erfc(ops: Emitted, x: relax.Expr) -> relax.Expr:
    return ops.subtract(ops.const(1), ops.erf(ops.cast(x)))


def ldexp(ops: Emitted, x: relax.Expr, other: relax.Expr) -> relax.Expr:
    """rewrite: ldexp(x, n) -> x * 2 ** n, as PyTorch has it"""
    return ops.multiply(ops.cast(x), ops.power(ops.const(2), ops.cast(other)))


def is_negative(ops: Emitted, x: relax.Expr) -> relax.Expr:
    """Return where a number has a sign, zeros too: x < 0 or 1 / x < 0."""
    dtype = str(x.ty.dtype)
    zero = relax.const(0, dtype)
    below = ops.less(x, zero)
    if "float" not in dtype:
        return below
    return ops.logical_or(below, ops.less(ops.divide(relax.const(1, dtype), x), zero))


def signbit(ops: Emitted, x: relax.Expr) -> relax.Expr:
    if str(x.ty.dtype) == "bool":
        return ops.zeros_like(x)
    return is_negative(ops, x)


def copysign(ops: Emitted, x: relax.Expr, other: Operand) -> relax.Expr:
    size = ops.abs(ops.cast(x))
    return ops.where(is_negative(ops, ops.cast(other)), ops.negative(size), size)


def fmax(ops: Emitted, x: relax.Expr, other: relax.Expr) -> relax.Expr:
    """rewrite: fmax(a, b) -> where(isnan(a), b, where(isnan(b), a, maximum(a, b)))"""
    return _of_numbers(ops, x, other, "maximum")


def fmin(ops: Emitted, x: relax.Expr, other: relax.Expr) -> relax.Expr:
    """rewrite: fmin(a, b) -> where(isnan(a), b, where(isnan(b), a, minimum(a, b)))"""
    return _of_numbers(ops, x, other, "minimum")


def _of_numbers(ops: Emitted, x: relax.Expr, other: relax.Expr, op: str) -> relax.Expr:
    a, b = ops.cast(x), ops.cast(other)
    if ops.dtype == "bool":
        return ops.logical_or(a, b) if op == "maximum" else ops.logical_and(a, b)
    made = getattr(ops, op)(a, b)
    if not ops.known.dtype.is_floating_point:
        return made
    return ops.where(ops.isnan(a), b, ops.where(ops.isnan(b), a, made))


def hypot(ops: Emitted, x: relax.Expr, other: relax.Expr) -> relax.Expr:
    """rewrite: hypot(a, b) -> m * sqrt(1 + (n / m) ** 2), m the larger part: squares overflow"""
    one, two = (ops.abs(ops.cast(part)) for part in (x, other))
    large, small = ops.maximum(one, two), ops.minimum(one, two)
    unit, infinity = ops.const(1), ops.const(math.inf)
    nothing = ops.equal(large, ops.const(0))
    ratio = ops.divide(small, ops.where(nothing, unit, large))
    root = ops.sqrt(ops.add(unit, ops.multiply(ratio, ratio)))
    infinite = ops.logical_or(ops.isinf(one), ops.isinf(two))
    return ops.where(infinite, infinity, ops.multiply(large, root))


def heaviside(ops: Emitted, x: relax.Expr, values: relax.Expr) -> relax.Expr:
    x, zero = ops.cast(x), ops.const(0)
    step = ops.cast(ops.greater(x, zero))
    return ops.where(ops.equal(x, zero), ops.cast(values), step)


def angle(ops: Emitted, x: relax.Expr) -> relax.Expr:
    """rewrite: angle(x) -> where(isnan(x), x, where(x < 0, pi, 0))   # of real numbers"""
    x = ops.cast(x)
    turned = ops.where(ops.less(x, ops.const(0)), ops.const(math.pi), ops.const(0))
    return ops.where(ops.isnan(x), x, turned)


def where(ops: Emitted, condition: relax.Expr, x: Operand, other: Operand) -> relax.Expr:
    """rewrite: where(c, x, y) -> where(c, astype(x, t), astype(y, t))   # t PyTorch's own"""
    return ops.where(ops.cast(condition, "bool"), ops.cast(x), ops.cast(other))


POINTWISE = {
    "elu.default": by_name(elu),
    "exp2.default": by_name(exp2),
    "erfc.default": by_name(erfc),
    "ldexp.Tensor": by_name(ldexp),
    "signbit.default": by_name(signbit),
    "copysign.Tensor": by_name(copysign),
    "copysign.Scalar": by_name(copysign),
    "fmax.default": by_name(fmax),
    "fmin.default": by_name(fmin),
    "hypot.default": by_name(hypot),
    "heaviside.default": by_name(heaviside),
    "angle.default": by_name(angle),
    "where.self": by_name(where),
}
