"""Conditions that hold of NaN what they should, and numbers as conditions."""

from __future__ import annotations

from tvm import ir, tirx

_INT = "int32"


def opposite(condition: ir.Expr) -> ir.Expr:
    """Return whether a condition does not hold.

    Not by Not: TVM makes y <= x of not (x < y), and x != y of not (x == y), which is false for NaN
    to it. Both differ where one is NaN.
    """
    return tirx.EQ(tirx.Cast(_INT, condition), tirx.IntImm(_INT, 0))


def truth(value: ir.Expr) -> ir.Expr:
    """Return whether a number is other than 0, as NaN is.

    Of the constants -8 and -2.0 TVM's simplifier would make a bool, and abort.
    """
    dtype = str(value.ty.dtype)
    if dtype.startswith("float"):
        return opposite(tirx.EQ(value, tirx.FloatImm(dtype, 0.0)))
    return tirx.NE(value, tirx.IntImm(dtype, 0))
