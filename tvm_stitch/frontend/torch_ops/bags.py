"""Bags of embeddings as Relax: sums of the rows that a bag names."""

from __future__ import annotations

import numpy as np
from tvm import relax

from .emitted import Emitted, by_name

_SUM, _MEAN = 0, 1


def bag(
    ops: Emitted,
    weight: relax.Expr,
    indices: relax.Expr,
    offsets: relax.Expr,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: relax.Expr | None,
    include_last_offset: bool,
    padding_idx: int,
) -> tuple[relax.Expr, ...]:
    """rewrite: embedding_bag(w, i, offsets) -> scatter_nd(zeros, bags of i, take(w, i), "add")

    The bag of a row is how many offsets are at it or before, less one.
    Raises: StitchError for the largest of rows, and if more is read than the bags.
    """
    if mode not in (_SUM, _MEAN):
        raise ops.refuse("bags are of the largest of their rows", "use mode='sum' or 'mean'")
    if any(ops.is_read(n) for n in (1, 2, 3)):
        raise ops.refuse("what it keeps for gradients is read", "read the bags alone")
    count, (bags, width) = int(indices.ty.shape.values[0]), ops.known.shape
    # PyTorch adds up halves in float32, and rounds once.
    wide = "float64" if ops.dtype == "float64" else "float32"
    rows, kept = ops.take(ops.cast(weight, wide), indices, 0), ops.const(np.ones((count, 1)), wide)
    if per_sample_weights is not None:
        rows = ops.multiply(rows, ops.expand_dims(ops.cast(per_sample_weights, wide), -1))
    if padding_idx >= 0:
        reads = ops.not_equal(indices, ops.const(padding_idx, str(indices.ty.dtype)))
        reads = ops.expand_dims(reads, -1)
        rows, kept = ops.where(reads, rows, ops.const(0, wide)), ops.cast(reads, wide)
    places = ops.expand_dims(ops.const(np.arange(count), "int64"), -1)
    starts = ops.cast(offsets, "int64")
    before = ops.cast(ops.less_equal(ops.expand_dims(starts, 0), places), "int64")
    number = ops.subtract(ops.sum(before, -1, keepdims=True), ops.const(1, "int64"))
    number = ops.minimum(number, ops.const(bags - 1, "int64"))
    made = ops.scatter_nd(ops.const(np.zeros((bags, width)), wide), number, rows, "add")
    if mode == _SUM:
        return (ops.cast(made),)
    sizes = ops.scatter_nd(ops.const(np.zeros((bags, 1)), wide), number, kept, "add")
    return (ops.cast(ops.divide(made, ops.maximum(sizes, ops.const(1, wide)))),)


BAGS = {
    "_embedding_bag_forward_only.default": by_name(bag),
    "_embedding_bag.default": by_name(bag),
}
