"""Numbers and indices: constants, casts, sums of scaled parts, runs of neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, tirx

from .conditions import truth

INDEX = "int32"


def constant(value: float | bool, dtype: str) -> ir.Expr:
    if dtype.startswith(("float", "bfloat")):
        return tirx.FloatImm(dtype, float(value))
    return tirx.IntImm(dtype, int(value))


def cast(value: ir.Expr, dtype: str) -> ir.Expr:
    if str(value.ty.dtype) == dtype:
        return value
    if dtype == "bool":
        return truth(value)
    return tirx.Cast(dtype, value)


def ramp(start: ir.Expr, lanes: int) -> ir.Expr:
    """Return so many indices from `start` on."""
    return tirx.Ramp(start, tirx.IntImm(INDEX, 1), lanes) if lanes > 1 else start


def total(parts: Sequence[tuple[int, ir.Expr]], const: int = 0) -> ir.Expr:
    """Return the sum of scaled parts, in 32-bit arithmetic."""
    out: ir.Expr | None = None
    for scale, value in parts:
        if isinstance(value, tirx.IntImm):
            const += scale * int(value)
            continue
        piece = value if scale == 1 else value * tirx.IntImm(INDEX, scale)
        out = piece if out is None else out + piece
    if out is None:
        return tirx.IntImm(INDEX, const)
    return out + tirx.IntImm(INDEX, const) if const else out
