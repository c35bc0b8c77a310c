"""bfloat16 as 16-bit integers in memory: TVM's own lowering mixes the two on some vector code."""

from __future__ import annotations

from tvm import ir, tirx

from ....tensor_ir.conditions import truth

BITS = "uint16"
_QUIET_NAN = 0x7FC0


def convert(value: ir.Expr, source: str, target: str) -> ir.Expr:
    """Convert `value` from `source` to `target`; bfloat16, one of the two, is held as its bits."""
    if source == target:
        return value
    if source == "bfloat16":
        wide = tirx.reinterpret("float32", tirx.Cast("uint32", value) << _u32(16))
        if target == "bool":
            return truth(wide)
        return wide if target == "float32" else tirx.Cast(target, wide)
    if source != "float32":
        value = tirx.Cast("float32", value)
    return _rounded(value)


def _rounded(value: ir.Expr) -> ir.Expr:
    """Return the bits of the nearest bfloat16, ties to even."""
    bits = tirx.reinterpret("uint32", value)
    odd = (bits >> _u32(16)) & _u32(1)
    nearest = tirx.Cast(BITS, (bits + _u32(0x7FFF) + odd) >> _u32(16))
    infinity = tirx.FloatImm("float32", float("inf"))
    return tirx.Select(tirx.abs(value) <= infinity, nearest, tirx.IntImm(BITS, _QUIET_NAN))


def _u32(value: int) -> tirx.IntImm:
    return tirx.IntImm("uint32", value)
