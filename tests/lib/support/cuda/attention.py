"""Attention written out, as an importer leaves it."""

from __future__ import annotations

from tvm import te, tirx


def attention(
    heads: int, queries: int, keys: int, size: int, dtype: str = "float32", causal: bool = False
) -> tirx.PrimFunc:
    """Return softmax(q @ k.T, causal perhaps) @ v of each head."""
    q = te.placeholder((heads, queries, size), dtype, "q")
    k, v = (te.placeholder((heads, keys, size), dtype, name) for name in "kv")
    r, j, m, t = (te.reduce_axis((0, n)) for n in (size, keys, keys, keys))
    scores = te.compute(
        (heads, queries, keys), lambda h, i, c: te.sum(q[h, i, r] * k[h, c, r], r), "scores"
    )
    if causal:
        least, seen = tirx.min_value(dtype), scores
        scores = te.compute(
            seen.shape, lambda h, i, c: tirx.Select(c <= i, seen[h, i, c], least), "masked"
        )
    most = te.compute((heads, queries), lambda h, i: te.max(scores[h, i, m], m), "most")
    power = te.compute(scores.shape, lambda h, i, c: te.exp(scores[h, i, c] - most[h, i]), "power")
    total = te.compute((heads, queries), lambda h, i: te.sum(power[h, i, t], t), "total")
    weights = te.compute(scores.shape, lambda h, i, c: power[h, i, c] / total[h, i], "weights")
    out = te.compute(
        (heads, queries, size), lambda h, i, d: te.sum(weights[h, i, j] * v[h, j, d], j), "out"
    )
    return te.create_prim_func([q, k, v, out])
