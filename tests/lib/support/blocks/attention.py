"""Attention in many forms over tokens (batch, tokens, channels)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from support.blocks import masks
from support.blocks import ops as op
from support.blocks.graph import BlockGraph
from support.blocks.norms import layer_norm, rms_norm, unit_length
from support.blocks.products import MULTIPLY_ADDS, linear
from support.random_graphs.values import Value

HEAD_SIZES = (1, 2, 4, 5, 8, 16, 16, 17, 32, 32, 64)


@dataclass(frozen=True)
class Heads:
    """How many query heads, key heads (a divisor of them), and channels in each."""

    queries: int
    keys: int
    size: int


def attention(
    g: BlockGraph, x: Value, mask: Value | None = None, bias: Value | None = None
) -> Value | None:
    """Attention of x on itself or on other tokens; `mask` and `bias` are added to the scores.

    `mask` (windows, tokens, tokens) repeats over the batch, `bias` is (heads, tokens, tokens).
    """
    if x.rank != 3 or 0 in x.shape:
        return None
    heads = _heads(g, x, bias)
    source = x if mask or bias else _source(g, x)
    work = x.shape[0] * heads.queries * heads.size * x.shape[1] * source.shape[1]
    scores = x.shape[0] * heads.queries * x.shape[1] * source.shape[1]
    total = heads.size * (heads.queries + 2 * heads.keys)
    wide = max(x.shape[1], source.shape[1]) * x.shape[0] * total
    if work > MULTIPLY_ADDS or scores > g.limit or wide > g.limit:
        return None
    q, k, v = _projected(g, x, source, heads)
    cosine = g.rng.random() < 0.2
    if cosine:
        q, k = unit_length(g, q), unit_length(g, k)
    elif g.rng.random() < 0.1:
        norm = g.rng.choice((layer_norm, rms_norm))
        q, k = norm(g, q), norm(g, k)
    if not cosine and heads.size % 2 == 0 and g.rng.random() < 0.2:
        q, k = _rotated(g, q), _rotated(g, k)
    k, v = _spread(g, k, heads), _spread(g, v, heads)
    if cosine:
        scores = _by_learned_scale(g, op.matmul(g, q, op.swap(g, k)), heads.queries)
    else:
        scores = _scores(g, q, k)
    if bias is not None:
        scores = op.add(g, scores, op.unsqueeze(g, bias, 0))
    if mask is not None:
        scores = _with_window_mask(g, scores, mask)
    elif g.rng.random() < 0.6:
        scores = masks.masked(g, scores)
    weights = op.softmax(g, scores)
    if g.rng.random() < 0.1:
        weights = _without_nan(g, weights)
    y = op.transpose(g, op.matmul(g, weights, v), 0, 2, 1, 3)
    y = op.reshape(g, y, *x.shape[:2], heads.queries * heads.size)
    return linear(g, y, x.shape[2]) if g.rng.random() < 0.9 else y


def _heads(g: BlockGraph, x: Value, bias: Value | None) -> Heads:
    channels = x.shape[2]
    queries = g.rng.choice((1, 2, 3, 4, 4, 8)) if bias is None else bias.shape[0]
    size = channels // queries if channels % queries == 0 else 0
    if not size or g.rng.random() < 0.2:
        size = g.rng.choice(HEAD_SIZES)
    shared = [n for n in range(1, queries) if queries % n == 0]
    keys = g.rng.choice(shared) if shared and g.rng.random() < 0.3 else queries
    return Heads(queries, keys, size)


def _source(g: BlockGraph, x: Value) -> Value:
    """What keys and values are made of: x, or other tokens."""
    if g.rng.random() < 0.75:
        return x
    tokens = g.rng.choice((1, 2, 3, 7, 16, 17, 33, 64, 100))
    other = g.pick(lambda v: v.rank == 3 and v.dtype == x.dtype and v.shape[0] == x.shape[0])
    if other is not None and other is not x and 0 not in other.shape and g.rng.random() < 0.5:
        return other
    return g.input((x.shape[0], tokens, g.rng.choice((8, 16, 32, 48, 64))), x.dtype)


def _projected(g: BlockGraph, x: Value, source: Value, heads: Heads) -> list[Value]:
    """Return q, k, v as (batch, heads, tokens, size)."""
    bias = g.rng.random() < 0.6
    sizes = [heads.queries * heads.size] + [heads.keys * heads.size] * 2
    counts = (heads.queries, heads.keys, heads.keys)
    if source is not x or g.rng.random() < 0.5:
        parts = [
            linear(g, y, columns, bias)
            for y, columns in zip((x, source, source), sizes, strict=True)
        ]
        return [_to_heads(g, y, n, heads.size) for y, n in zip(parts, counts, strict=True)]
    joined = linear(g, x, sum(sizes), bias)
    batch, tokens = x.shape[:2]
    if heads.keys < heads.queries and g.rng.random() < 0.5:  # Falcon: split after the heads
        y = op.reshape(g, joined, batch, tokens, sum(counts), heads.size)
        parts = op.chunks(g, y, counts, 2)
        return [op.transpose(g, part, 0, 2, 1, 3) for part in parts]
    if heads.keys == heads.queries and g.rng.random() < 0.6:
        y = op.reshape(g, joined, batch, tokens, 3, heads.queries, heads.size)
        y = op.transpose(g, y, 2, 0, 3, 1, 4)
        return [op.pick(g, y, 0, i) for i in range(3)]
    parts = op.chunks(g, joined, sizes, -1)
    return [_to_heads(g, y, n, heads.size) for y, n in zip(parts, counts, strict=True)]


def _to_heads(g: BlockGraph, x: Value, count: int, size: int) -> Value:
    y = op.reshape(g, x, *x.shape[:2], count, size)
    return op.transpose(g, y, 0, 2, 1, 3)


def _spread(g: BlockGraph, x: Value, heads: Heads) -> Value:
    """Let each key head serve its share of query heads."""
    times = heads.queries // heads.keys
    if times == 1 or (heads.keys == 1 and g.rng.random() < 0.5):
        return x
    batch, _, tokens, size = x.shape
    y = op.expand(g, op.unsqueeze(g, x, 2), batch, heads.keys, times, tokens, size)
    return op.reshape(g, y, batch, heads.queries, tokens, size)


def _scores(g: BlockGraph, q: Value, k: Value) -> Value:
    scale, how = 1 / math.sqrt(q.shape[-1]), g.rng.choice(("q", "after", "after", "both", "k"))
    if how == "q":
        q = op.scaled(g, q, scale)
    elif how == "k":
        k = op.scaled(g, k, scale)
    elif how == "both":
        q, k = op.scaled(g, q, math.sqrt(scale)), op.scaled(g, k, math.sqrt(scale))
    scores = op.matmul(g, q, op.swap(g, k))
    return op.scaled(g, scores, scale) if how == "after" else scores


def _by_learned_scale(g: BlockGraph, scores: Value, heads: int) -> Value:
    """exp(min(scale, log 100)) of each head, as in Swin V2."""
    scale = g.constant(g.noise.uniform(1.0, 5.0, (heads, 1, 1)), scores.dtype)
    if g.rng.random() < 0.5:
        high = op.number(g, 4.605)
        scale = g.select("Min", np.minimum, [scale, high])
        scale = g.rounded("Exp", np.exp, [scale])
    return op.mul(g, scores, scale)


def _rotated(g: BlockGraph, x: Value) -> Value:
    """Rotary position embedding by tables of cosines and sines."""
    tokens, size = x.shape[2:]
    rates = 1e4 ** -(np.arange(0, size, 2) / size)
    angles = np.concatenate([np.outer(np.arange(tokens), rates)] * 2, -1)
    shape = g.rng.choice(((tokens, size), (1, 1, tokens, size)))
    cos, sin = (g.constant(f(angles).reshape(shape), x.dtype) for f in (np.cos, np.sin))
    one, other = op.chunks(g, x, (size // 2, size // 2), -1)
    minus = g.select("Neg", np.negative, [other])
    turned = op.concat(g, [minus, one], -1)
    return op.add(g, op.mul(g, x, cos), op.mul(g, turned, sin))


def _with_window_mask(g: BlockGraph, scores: Value, mask: Value) -> Value:
    """Add a mask of windows to scores (batch * windows, heads, tokens, tokens)."""
    windows, tokens = mask.shape[:2]
    y = op.reshape(g, scores, -(-scores.shape[0] // windows), windows, *scores.shape[1:])
    turned = op.reshape(g, mask, 1, windows, 1, tokens, tokens)
    return op.reshape(g, op.masked_add(g, y, turned), *scores.shape)


def _without_nan(g: BlockGraph, weights: Value) -> Value:
    """Zeros instead of NaN, as exporters write softmax of rows that may be masked whole."""
    if weights.dtype not in ("float32", "float64", "float16"):
        return weights
    none = g.select("IsNaN", np.isnan, [weights], "bool")
    return op.where(g, none, op.number(g, 0.0), weights)


def channel_attention(g: BlockGraph, x: Value) -> Value | None:
    """Scores between channels of a head, by unit vectors over tokens (XCiT)."""
    if x.rank != 3 or x.shape[1] < 2:
        return None
    heads = g.rng.choice([n for n in (1, 2, 4) if x.shape[2] % n == 0])
    size = x.shape[2] // heads
    if x.shape[0] * x.shape[2] * size > g.limit or size * x.ref.size > MULTIPLY_ADDS:
        return None
    q, k, v = _projected(g, x, x, Heads(heads, heads, size))
    q, k = (unit_length(g, op.swap(g, y)) for y in (q, k))
    scores = _by_learned_scale(g, op.matmul(g, q, op.swap(g, k)), heads)
    y = op.matmul(g, op.softmax(g, scores), op.swap(g, v))
    return linear(g, op.reshape(g, op.transpose(g, y, 0, 3, 1, 2), *x.shape), x.shape[2])


def linear_attention(g: BlockGraph, x: Value) -> Value | None:
    """softmax(q) @ (softmax(k over tokens)' @ v)."""
    if x.rank != 3 or 0 in x.shape:
        return None
    heads = g.rng.choice([n for n in (1, 2, 4) if x.shape[2] % n == 0])
    size = x.shape[2] // heads
    if 3 * x.ref.size > g.limit or 3 * x.ref.size * x.shape[2] > MULTIPLY_ADDS:
        return None
    q, k, v = _projected(g, x, x, Heads(heads, heads, size))
    q, k = op.softmax(g, q), op.softmax(g, k, axis=-2)
    y = op.matmul(g, q, op.matmul(g, op.swap(g, k), v))
    return op.reshape(g, op.transpose(g, y, 0, 2, 1, 3), *x.shape)


def pooled_attention(g: BlockGraph, x: Value) -> Value | None:
    """One learned query a head looks at all tokens; the result is (batch, channels)."""
    if x.rank != 3 or 0 in x.shape:
        return None
    queries = op.weight(g, x.shape[2], 1, fan_in=x.shape[2])
    scores = op.matmul(g, x, queries)  # (batch, tokens, 1)
    weights = op.softmax(g, scores, axis=1)
    if g.rng.random() < 0.5:
        return op.reduced(g, "ReduceSum", op.mul(g, x, weights), [1], keepdims=False)
    return op.squeeze(g, op.matmul(g, op.swap(g, weights), x), 1)
