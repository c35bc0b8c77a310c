"""Blocks of matrix products: linear layers, MLPs, gates, products of two activations, cells."""

from __future__ import annotations

import math

import numpy as np

from support.blocks import ops as op
from support.blocks.graph import BlockGraph
from support.random_graphs.values import Value

WIDTHS = (1, 2, 3, 5, 8, 10, 16, 17, 24, 31, 32, 48, 64, 64, 96, 100, 128, 128, 129, 192, 256)
MULTIPLY_ADDS = 1 << 23  # of one product, at most


def width(g: BlockGraph, x: Value, rows: int | None = None) -> int:
    """Draw how many columns a product of x may have."""
    k = x.shape[-1]
    rows = max(1, x.ref.size // max(k, 1)) if rows is None else rows
    fitting = [w for w in WIDTHS if rows * w <= g.limit and rows * k * w <= MULTIPLY_ADDS]
    return g.rng.choice(fitting or [1])


def linear(g: BlockGraph, x: Value, columns: int = 0, bias: bool | None = None) -> Value:
    """x @ W + b over the last axis, in one of the ways exporters write it."""
    k = x.shape[-1]
    columns = columns or width(g, x)
    bias = g.rng.random() < 0.7 if bias is None else bias
    if x.rank == 2 and x.dtype != "bfloat16" and g.rng.random() < 0.6:
        return _gemm(g, x, columns, bias)
    if x.rank > 2 and x.dtype != "bfloat16" and g.rng.random() < 0.1:
        flat = op.reshape(g, x, math.prod(x.shape[:-1]), k)
        return op.reshape(g, _gemm(g, flat, columns, bias), *x.shape[:-1], columns)
    if g.rng.random() < 0.15:  # the weight lies transposed, as PyTorch keeps it
        w = op.transpose(g, op.weight(g, columns, k, fan_in=k), 1, 0)
    else:
        w = op.weight(g, k, columns, fan_in=k)
    y = op.matmul(g, x, w)
    if bias:
        b = op.weight(g, columns)
        y = op.add(g, y, b) if g.rng.random() < 0.5 else op.add(g, b, y)
    return y


def _gemm(g: BlockGraph, x: Value, columns: int, bias: bool) -> Value:
    k = x.shape[-1]
    turned = g.rng.random() < 0.6
    shape = (columns, k) if turned else (k, columns)
    alpha, beta = g.rng.choice(((1.0, 1.0), (1.0, 1.0), (0.5, 2.0)))
    args = [x, op.weight(g, *shape, fan_in=k)]
    if bias:
        b = op.weight(g, columns)
        args.append(b)

    def gemm(a, w, c=0.0):
        return alpha * (a @ (w.T if turned else w)) + beta * c

    attrs = {"alpha": alpha, "beta": beta, "transB": int(turned)}
    return g.rounded("Gemm", gemm, args, accumulates=True, **attrs)


def mlp(g: BlockGraph, x: Value) -> Value:
    """Two or three linear layers with activations between them."""
    hidden = width(g, x)
    y = op.activation(g, linear(g, x, hidden))
    if g.rng.random() < 0.2:
        y = op.activation(g, linear(g, y))
    return linear(g, y, x.shape[-1] if g.rng.random() < 0.7 else 0)


def gated(g: BlockGraph, x: Value) -> Value:
    """GLU and its kin: one half through an activation times the other."""
    hidden = width(g, x)
    if g.rng.random() < 0.5:
        one, other = linear(g, x, hidden), linear(g, x, hidden)
    else:
        one, other = op.chunks(g, linear(g, x, 2 * hidden), (hidden, hidden), -1)
    y = op.mul(g, op.activation(g, one), other)
    return linear(g, y, x.shape[-1]) if g.rng.random() < 0.7 else y


def product(g: BlockGraph, x: Value) -> Value | None:
    """x @ y with an earlier value, an input or a turned x; batch axes broadcast."""
    if x.rank < 2:
        return None
    k, n = x.shape[-1], width(g, x)
    how = g.rng.choice(("input", "gram", "batch", "vector"))
    if how == "gram":
        rows = x.shape[-2]
        if rows * x.ref.size > MULTIPLY_ADDS or rows * x.ref.size // max(k, 1) > g.limit:
            return None
        y = op.swap(g, x)
        pair = [x, y] if g.rng.random() < 0.5 else [y, x]
        if pair[0] is y and k * x.ref.size // max(rows, 1) > g.limit:
            return None
        return op.scaled(g, op.matmul(g, *pair), 1 / math.sqrt(pair[0].shape[-1]))
    if how == "vector":
        y = op.matmul(g, x, op.weight(g, k, fan_in=k))
        return y if y.rank else None
    lead = tuple(e if g.rng.random() < 0.5 else 1 for e in x.shape[:-2])
    if how == "batch" and x.rank > 2:
        lead = lead[g.rng.randint(0, len(lead)) :]
    shape = (*lead, k, n)
    if math.prod(shape) > g.limit:
        return None
    if g.rng.random() < 0.5:
        y = g.constant(g.noise.standard_normal(shape) / math.sqrt(k), g.dtype)
    elif g.rng.random() < 0.5:
        y = op.scaled(g, g.input(shape, g.dtype), 1 / math.sqrt(k))
    else:
        y = op.swap(g, op.scaled(g, g.input((*lead, n, k), g.dtype), 1 / math.sqrt(k)))
    return op.matmul(g, x, y)


def recurrent(g: BlockGraph, x: Value) -> Value | None:
    """Some steps of an LSTM or GRU over the last axis but one, written out."""
    if x.rank != 3 or x.shape[1] > 6 or x.shape[2] > 128:
        return None
    batch, steps, k = x.shape
    hidden = g.rng.choice((1, 4, 8, 16, 32, 33))
    state = op.weight(g, batch, hidden)
    cell = op.weight(g, batch, hidden)
    recur = op.weight(g, hidden, 4 * hidden, fan_in=hidden)
    feed = op.weight(g, k, 4 * hidden, fan_in=k)
    bias = op.weight(g, 4 * hidden)
    whole = op.matmul(g, x, feed) if g.rng.random() < 0.5 else None
    states = []
    for t in range(steps):
        if whole is not None:
            fed = op.pick(g, whole, 1, t)
        else:
            fed = op.matmul(g, op.pick(g, x, 1, t), feed)
        gates = op.add(g, op.add(g, fed, op.matmul(g, state, recur)), bias)
        i, f, o, c = op.chunks(g, gates, (hidden,) * 4, -1)
        i, f, o = (g.rounded("Sigmoid", op.sigmoid, [gate]) for gate in (i, f, o))
        new = g.rounded("Tanh", np.tanh, [c])
        cell = op.add(g, op.mul(g, f, cell), op.mul(g, i, new))
        state = op.mul(g, o, g.rounded("Tanh", np.tanh, [cell]))
        states.append(op.unsqueeze(g, state, 1))
    return op.concat(g, states, 1) if g.rng.random() < 0.7 else state


def embedding(g: BlockGraph, ids: Value) -> Value:
    """Rows of a table by integers from -9 to 9, as the inputs of a graph hold."""
    rows, k = g.rng.choice((10, 17, 64)), g.rng.choice((8, 16, 32, 48, 64, 100, 128))
    table = op.weight(g, rows, k)
    return g.rounded("Gather", lambda t, i: t[i], [table, ids], axis=0)


def masked_tokens(g: BlockGraph, x: Value) -> Value | None:
    """Some rows of x replaced by one learned row, chosen by a boolean input."""
    if x.rank != 3:
        return None
    chosen = g.input((*x.shape[:2], 1), "bool")
    row = g.constant(g.noise.standard_normal((1, 1, x.shape[2])), x.dtype)
    if g.rng.random() < 0.5:
        return op.where(g, chosen, row, x)
    share = op.cast(g, chosen, x.dtype)
    kept = op.sub(g, op.number(g, 1.0), share)
    return op.add(g, op.mul(g, x, kept), op.mul(g, row, share))
