"""Tensors that no memory holds the whole of."""

from __future__ import annotations

from ...kernel_ir.expr import Tensor


class Tile(Tensor):
    """An operand of a product: blocks have a part of it for each step of its sum."""
