"""What becomes of tensors without elements.

TVM writes no zero where it sums over nothing, and no template reads from a tensor that is empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm import relax, topi

from ..weights import static_shape
from .indexing import fields

Legalizer = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]


def einsum_of_nothing(otherwise: Legalizer) -> Legalizer:
    """Legalise einsums with an operand that has no elements, and the others `otherwise`."""

    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        shapes = [static_shape(field) for field in fields(call.args[0])]
        made = static_shape(call)
        if made is None or not any(shape is not None and not math.prod(shape) for shape in shapes):
            return otherwise(builder, call)
        return builder.call_te(topi.full, made, str(call.ty.dtype), 0, primfunc_name_hint="einsum")

    return legalize


def concat_of_some(otherwise: Legalizer) -> Legalizer:
    """Leave tensors without elements out of a concatenation: a cache that holds nothing yet."""

    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        tensors, axis = fields(call.args[0]), call.attrs.axis
        shapes = [static_shape(tensor) for tensor in tensors]
        if axis is None or None in shapes or len({len(shape) for shape in shapes}) > 1:
            return otherwise(builder, call)
        kept = [t for t, shape in zip(tensors, shapes, strict=True) if shape[int(axis)]]
        if len(kept) in (0, len(tensors)):
            return otherwise(builder, call)
        if len(kept) == 1:
            return kept[0]
        return builder.call_te(topi.concatenate, kept, int(axis), primfunc_name_hint="concatenate")

    return legalize
