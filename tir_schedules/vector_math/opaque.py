"""Numbers that TVM does not fold: to its simplifier x * 0 and 0 / x are 0, NaN or not."""

from tvm import tirx
from tvm.ir import Expr


def opaque_zero(negative: bool, dtype: str) -> Expr:
    """Return a float zero that TVM takes for a value; LLVM knows that x * 0 may be NaN."""
    wide, bits, width = ("float64", "int64", 64) if dtype == "float64" else ("float32", "int32", 32)
    # The bits of +0 would be taken for a null pointer by TVM's code generator.
    zero = tirx.reinterpret(wide, tirx.IntImm(bits, -(1 << (width - 1))))
    zero = zero if negative else zero * tirx.FloatImm(wide, -1.0)
    return zero if dtype == wide else tirx.Cast(dtype, zero)


def opaque_one(dtype: str) -> Expr:
    """Return a float 1 that TVM takes for a value; LLVM makes x of x * 1."""
    if dtype == "float64":
        return tirx.reinterpret(dtype, tirx.IntImm("int64", 0x3FF << 52))
    one = tirx.reinterpret("float32", tirx.IntImm("int32", 0x7F << 23))
    return one if dtype == "float32" else tirx.Cast(dtype, one)
