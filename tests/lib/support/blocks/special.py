"""Special numbers at places in the middle of a network: NaN, infinities, zeros, tiny and huge."""

from __future__ import annotations

import numpy as np

from support.blocks import ops as op
from support.blocks.graph import BlockGraph
from support.random_graphs.values import Value


def planted(g: BlockGraph, x: Value) -> Value:
    """Return x with special numbers at a few places that come of its values or of constants."""
    if not x.rank:
        return x
    return g.rng.choice((_added, _divided, _logarithm, _chosen, _scaled, _root))(g, x)


def _places(g: BlockGraph, x: Value) -> np.ndarray:
    """Draw one to three places of x, or all in one row."""
    marked = np.zeros(x.shape, bool)
    for _ in range(g.rng.randint(1, 3)):
        marked[tuple(g.rng.randrange(extent) for extent in x.shape)] = True
    if g.rng.random() < 0.3:
        marked |= marked.any(-1, keepdims=True)
    return marked


def _added(g: BlockGraph, x: Value) -> Value:
    number = g.rng.choice((np.nan, np.inf, -np.inf, -0.0, 1e-40))
    return op.add(g, x, g.constant(np.where(_places(g, x), number, 0.0), x.dtype))


def _divided(g: BlockGraph, x: Value) -> Value:
    zero = g.rng.choice((0.0, -0.0))
    return op.div(g, x, g.constant(np.where(_places(g, x), zero, 1.0), x.dtype))


def _logarithm(g: BlockGraph, x: Value) -> Value:
    positive = g.select("Relu", lambda a: np.maximum(a, 0.0), [x])
    kept = g.constant(np.where(_places(g, x), 0.0, 1.0), x.dtype)
    shifted = op.add(g, positive, op.number(g, 0.5))
    return g.rounded("Log", np.log, [op.mul(g, shifted, kept)])


def _chosen(g: BlockGraph, x: Value) -> Value:
    number = g.rng.choice((np.nan, np.inf, -np.inf, -np.inf))
    return op.where(g, g.constant(_places(g, x), "bool"), op.number(g, number), x)


def _scaled(g: BlockGraph, x: Value) -> Value:
    number = g.rng.choice((0.0, np.inf, 1e-40, 1e20))
    return op.mul(g, x, g.constant(np.where(_places(g, x), number, 1.0), x.dtype))


def _root(g: BlockGraph, x: Value) -> Value:
    """NaN where a constant is below -|x|."""
    size = g.select("Abs", np.abs, [x])
    low = g.constant(np.where(_places(g, x), -1e4, 0.25), x.dtype)
    return op.sqrt(g, op.add(g, size, low))
