"""Attention as PyTorch's exporter writes it for batch-first (batch, seq, hidden) models."""

from __future__ import annotations

import math
from collections.abc import Callable

from zoo.graph import Dim, Graph
from zoo.weights import lowest_number

TO_HEADS = (0, 2, 1, 3)  # (batch, seq, heads, size) -> (batch, heads, seq, size)
TO_HEADS_TRANSPOSED = (0, 2, 3, 1)


def split_heads(
    g: Graph, x: str, dims: tuple[Dim, Dim], heads: tuple[int, int], *, transposed: bool = False
) -> str:
    """(batch, seq, heads * size) to (batch, heads, seq, size), or (batch, heads, size, seq)."""
    parted = g.reshape(x, (*dims, *heads), x, (*dims, math.prod(heads)))
    return g.op("Transpose", parted, perm=TO_HEADS_TRANSPOSED if transposed else TO_HEADS)


def merge_heads(g: Graph, x: str, dims: tuple[Dim, Dim], heads: tuple[int, int]) -> str:
    """(batch, heads, seq, size) back to (batch, seq, heads * size)."""
    turned = g.op("Transpose", x, perm=TO_HEADS)
    return g.reshape(turned, (*dims, math.prod(heads)), turned, (*dims, *heads))


def attend(
    g: Graph,
    query: str,
    key_transposed: str,
    value: str,
    head_size: int,
    *,
    mask: Callable[[str], str] = lambda scores: scores,
) -> str:
    """softmax(mask(q @ k^T / sqrt(head_size))) @ v, as eager Hugging Face models export."""
    scores = g.op("MatMul", query, key_transposed)
    scaled = g.op("Div", scores, g.constant(math.sqrt(head_size)))
    return g.op("MatMul", g.op("Softmax", mask(scaled), axis=-1), value)


def attend_prescaled(g: Graph, query: str, key_transposed: str, value: str, head_size: int) -> str:
    """The same without a mask, both factors scaled first, as scaled_dot_product_attention is."""
    root = g.constant(head_size**-0.25)
    scores = g.op("MatMul", g.op("Mul", query, root), g.op("Mul", key_transposed, root))
    return g.op("MatMul", g.op("Softmax", scores, axis=-1), value)


def expand(g: Graph, x: str, dims: tuple[Dim, ...], like: str, like_dims: tuple[Dim, ...]) -> str:
    """Expand to `dims`; a symbolic one goes through the exporter's `-1 means keep` subgraph."""
    shape = g.shape(dims, like, like_dims)
    if any(isinstance(dim, str) for dim in dims):
        ones = g.filled(g.op("Shape", shape), 1, "int64")
        keep = g.op("Equal", shape, g.op("Mul", ones, g.constant(-1, "int64")))
        shape = g.op("Where", keep, ones, shape)
    return g.op("Expand", x, shape)


def padding_bias(g: Graph, mask: str, dims: tuple[Dim, Dim], form: str) -> str:
    """Turn an int64 mask (batch, seq), 1 = attend, into an additive float one.

    `form`: "-10000" and "min" are `(1 - mask) * value` of shape (batch, 1, 1, seq); "where" picks
    0 or the lowest number, which a ConstantOfShape of an empty shape makes, (batch, 1, seq, seq).
    """
    batch, seq = dims
    wide = g.op("Unsqueeze", g.op("Unsqueeze", mask, g.ints(1)), g.ints(2))
    lowest = lowest_number(g.dtype)
    if form == "where":
        wide = expand(g, wide, (batch, 1, seq, seq), mask, dims)
        fill = g.filled(g.constant([], "int64"), lowest)
        fill = g.op("Expand", fill, g.op("Shape", wide))
        return g.op("Where", g.cast(wide, "bool"), g.constant(0.0), fill)
    if form not in {"-10000", "min"}:
        raise ValueError(f"mask must be '-10000', 'min' or 'where', got {form!r}")
    inverted = g.op("Sub", g.constant(1.0), g.cast(wide, g.dtype))
    return g.op("Mul", inverted, g.constant(lowest if form == "min" else -10000.0))
