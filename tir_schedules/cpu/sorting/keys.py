"""Integers in the order of numbers of any type, so that vectors of them are compared at once."""

from __future__ import annotations

from tvm import ir, tirx

_FLOATS = {"float32": ("int32", 0x7F800000), "float64": ("int64", 0x7FF0000000000000)}
_HALVES = ("float16", "bfloat16")


def key_dtype(dtype: str) -> str:
    """Return the integers that tell numbers of a type apart."""
    return "int64" if dtype in ("float64", "int64", "uint64") else "int32"


def key(value: ir.Expr, descending: bool) -> ir.Expr:
    """Return an integer that is less where an element comes first, equal where elements are.

    Zeros of both signs are equal. A NaN of any kind is larger than infinity.
    """
    dtype = str(value.ty.dtype)
    made = _of_float(value, dtype) if "float" in dtype else _of_integer(value, dtype)
    return tirx.bitwise_not(made) if descending else made


def _of_integer(value: ir.Expr, dtype: str) -> ir.Expr:
    wide = key_dtype(dtype)
    if dtype in ("uint32", "uint64"):
        return tirx.reinterpret(wide, value) ^ tirx.min_value(wide)
    return tirx.Cast(wide, value)


def _of_float(value: ir.Expr, dtype: str) -> ir.Expr:
    if dtype in _HALVES:
        value, dtype = tirx.Cast("float32", value), "float32"
    wide, infinity = _FLOATS[dtype]
    most = tirx.max_value(wide)
    bits = tirx.reinterpret(wide, value)
    magnitude = bits & most
    # Of a negative number the larger magnitude is less; its sign is set either way.
    ordered = tirx.Select(bits < tirx.const(0, wide), bits ^ most, bits)
    ordered = tirx.Select(tirx.EQ(magnitude, tirx.const(0, wide)), tirx.const(0, wide), ordered)
    return tirx.Select(magnitude > tirx.IntImm(wide, infinity), most, ordered)
