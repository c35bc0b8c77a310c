"""Masks of attention scores (batch, heads, queries, keys): causal, padding, biases."""

from __future__ import annotations

import numpy as np

from support.blocks import ops as op
from support.blocks.graph import BlockGraph
from support.random_graphs.values import Value

LOW = {"float16": 6e4, "bfloat16": 1e30, "float32": 3.4028235e38, "float64": 1e300}


def masked(g: BlockGraph, scores: Value) -> Value:
    """Return the scores with a random mask or bias."""
    ways = (causal, causal, padding, padding, both, additive, alibi, bucketed, bucketed)
    return g.rng.choice(ways)(g, scores)


def causal(g: BlockGraph, scores: Value) -> Value:
    queries, keys = scores.shape[-2:]
    seen = np.tril(np.ones((queries, keys), bool), max(0, keys - queries))
    if g.rng.random() < 0.5:
        return _chosen(g, scores, g.constant(seen, "bool"))
    return op.masked_add(g, scores, g.constant(np.where(seen, 0, _low(g, scores)), scores.dtype))


def padding(g: BlockGraph, scores: Value) -> Value:
    """Keys that an input says are not there; sometimes a batch has none at all."""
    keep = _kept(g, scores)
    if g.rng.random() < 0.5:
        flags = _input(g, keep, "bool")
        return _chosen(g, scores, op.reshape(g, flags, scores.shape[0], 1, 1, scores.shape[-1]))
    flags = op.cast(g, _input(g, keep, "int64"), scores.dtype)
    turned = op.unsqueeze(g, op.unsqueeze(g, flags, 1), 1)
    absent = g.select("Sub", lambda a, b: a - b, [op.number(g, 1.0), turned])
    low = _finite_low(g, scores)
    amount = g.select("Mul", lambda a, b: a * b, [absent, op.number(g, low)])
    return op.masked_add(g, scores, amount)


def both(g: BlockGraph, scores: Value) -> Value:
    """Causal and padding joined by And, as one condition."""
    queries, keys = scores.shape[-2:]
    seen = g.constant(np.tril(np.ones((queries, keys), bool), max(0, keys - queries)), "bool")
    flags = _input(g, _kept(g, scores), "bool")
    turned = op.reshape(g, flags, scores.shape[0], 1, 1, keys)
    return _chosen(g, scores, g.select("And", np.logical_and, [seen, turned]))


def additive(g: BlockGraph, scores: Value) -> Value:
    """A float input added to the scores; some of it may be -inf."""
    batch, heads, queries, keys = scores.shape
    shape = g.rng.choice(
        ((queries, keys), (batch, 1, queries, keys), (1, heads, queries, keys), (batch, 1, 1, keys))
    )
    mask = g.input(shape, scores.dtype)
    if g.rng.random() < 0.5:
        numbers = np.where(g.noise.random(shape) < 0.3, -np.inf, mask.ref)
        if g.rng.random() < 0.2:
            numbers[..., 0, :] = -np.inf
        mask.lanes = (numbers,) * len(mask.lanes)
    return op.masked_add(g, scores, mask)


def alibi(g: BlockGraph, scores: Value) -> Value:
    """A slope a head times the distance."""
    heads, (queries, keys) = scores.shape[1], scores.shape[-2:]
    distance = np.arange(keys) - np.arange(queries)[:, None]
    slopes = 2.0 ** -np.arange(1, heads + 1)[:, None, None]
    return op.add(g, scores, g.constant(slopes * distance, scores.dtype))


def bucketed(g: BlockGraph, scores: Value) -> Value:
    """A bias a head gathered by distance: signed as in T5, or by any table as in BEiT."""
    heads, (queries, keys) = scores.shape[1], scores.shape[-2:]
    if g.rng.random() < 0.5:
        apart = np.arange(keys) - np.arange(queries)[:, None]
        index = np.clip(apart, -8, 8) + 8
    else:
        index = g.noise.integers(0, 17, (queries, keys))
    bias = gathered_bias(g, op.weight(g, 17, heads), index)
    return op.add(g, scores, op.unsqueeze(g, bias, 0))


def position_bias(g: BlockGraph, heads: int, window: int) -> Value:
    """Return (heads, tokens, tokens), tokens = window squared, gathered from a table (Swin)."""
    places = np.stack(np.meshgrid(np.arange(window), np.arange(window), indexing="ij"))
    flat = places.reshape(2, -1)
    apart = flat[:, :, None] - flat[:, None, :] + window - 1
    index = apart[0] * (2 * window - 1) + apart[1]
    table = op.weight(g, (2 * window - 1) ** 2, heads)
    if g.rng.random() < 0.5:
        # Swin V2: the table is the result of an MLP and goes through a sigmoid.
        gate = g.rounded("Sigmoid", op.sigmoid, [table])
        table = op.mul(g, gate, op.number(g, 16.0))
    return gathered_bias(g, table, index)


def gathered_bias(g: BlockGraph, table: Value, index: np.ndarray) -> Value:
    """Return (heads, queries, keys), rows of a table (rows, heads) by (queries, keys)."""
    if g.rng.random() < 0.5:
        picked = _gathered(g, table, index.reshape(-1))
        picked = op.reshape(g, picked, *index.shape, table.shape[1])
    else:
        picked = _gathered(g, table, index)
    return op.transpose(g, picked, 2, 0, 1)


def _gathered(g: BlockGraph, table: Value, index: np.ndarray) -> Value:
    extra = [g.constant(index, "int64")]
    return g.layout("Gather", lambda t: t[index], [table], extra, axis=0)


def _kept(g: BlockGraph, scores: Value) -> np.ndarray:
    batch, keys = scores.shape[0], scores.shape[-1]
    keep = np.ones((batch, keys), bool)
    for row in keep:
        row[g.rng.randint(1, keys) :] = False
    if g.rng.random() < 0.3:
        keep[g.rng.randrange(batch)] = False
    return keep


def _chosen(g: BlockGraph, scores: Value, seen: Value) -> Value:
    """Where(seen, scores, low), or with the condition turned round."""
    low = op.number(g, _low(g, scores))
    if g.rng.random() < 0.6:
        return op.where(g, seen, scores, low)
    hidden = g.select("Not", np.logical_not, [seen])
    return op.where(g, hidden, low, scores)


def _low(g: BlockGraph, scores: Value) -> float:
    return -np.inf if g.rng.random() < 0.4 else _finite_low(g, scores)


def _finite_low(g: BlockGraph, scores: Value) -> float:
    return -g.rng.choice((1e4, LOW[scores.dtype], min(1e9, LOW[scores.dtype])))


def _input(g: BlockGraph, array: np.ndarray, dtype: str) -> Value:
    value = g.input(array.shape, dtype)
    value.lanes = (array.astype(dtype),) * len(value.lanes)
    return value
