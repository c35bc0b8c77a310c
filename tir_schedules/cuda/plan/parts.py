"""Tensors of parts of sums: one launch makes them, what puts them together waits for all of it."""

from __future__ import annotations

from ...kernel_ir.expr import Tensor


class Parts(Tensor):
    """A tensor of parts of sums, part by part."""
