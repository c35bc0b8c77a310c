"""Integer divisions that do not trap: x86 ends the process at x / 0 and at the least integer / -1.

The results are NumPy's: 0, and the least integer.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, relax, te, tirx, topi
from tvm.ir import Constant

from ..weights import static_shape

Legalizer = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]
Divide = Callable[[ir.Expr, ir.Expr], ir.Expr]


def quotient(divide: Divide, otherwise: Legalizer) -> Legalizer:
    """Legalise what may trap by `divide`, a division of two integers, and the rest `otherwise`."""
    return _without_traps(divide, lambda x: tirx.const(0, x.ty.dtype) - x, otherwise)


def remainder(divide: Divide, otherwise: Legalizer) -> Legalizer:
    """Legalise what may trap by `divide`, which leaves a remainder, and the rest `otherwise`."""
    return _without_traps(divide, lambda x: tirx.const(0, x.ty.dtype), otherwise)


def _without_traps(
    divide: Divide, by_minus_one: Callable[[ir.Expr], ir.Expr], otherwise: Legalizer
) -> Legalizer:
    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        shape = static_shape(call)
        if shape is None or not _may_trap(call.args[1]):
            return otherwise(builder, call)

        def compute(x: te.Tensor, y: te.Tensor) -> te.Tensor:
            wide = topi.broadcast_to(x, shape), topi.broadcast_to(y, shape)
            return te.compute(shape, lambda *i: divided(*(tensor(*i) for tensor in wide)))

        hint = call.op.name.rpartition(".")[2]
        return builder.call_te(compute, *call.args, primfunc_name_hint=hint)

    def divided(x: ir.Expr, y: ir.Expr) -> ir.Expr:
        zero, one = (tirx.const(number, y.ty.dtype) for number in (0, 1))
        if str(y.ty.dtype).startswith("uint"):
            return tirx.Select(y == zero, zero, divide(x, tirx.Select(y == zero, one, y)))
        traps = tirx.any(y == zero, y == zero - one)
        result = divide(x, tirx.Select(traps, one, y))
        result = tirx.Select(y == zero - one, by_minus_one(x), result)
        return tirx.Select(y == zero, zero, result)

    return legalize


def _may_trap(divisor: relax.Expr) -> bool:
    """Return whether a divisor is an integer that may be 0 or -1."""
    if not str(divisor.ty.dtype).startswith(("int", "uint")):
        return False
    if not isinstance(divisor, Constant):
        return True
    numbers = divisor.value.numpy()
    return bool(((numbers == 0) | (numbers == -1)).any())
