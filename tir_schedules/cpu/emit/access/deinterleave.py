"""Where elements of a deinterleaved line are."""

from __future__ import annotations

from tvm import ir, tirx

from ....tensor_ir.numbers import INDEX
from ...plan.memory import Deinterleave


def place_of(split: Deinterleave, at: ir.Expr) -> ir.Expr:
    """Return where on its line an element is."""
    ways = tirx.IntImm(INDEX, split.ways)
    return tirx.floormod(at, ways) * split.part + tirx.floordiv(at, ways)
