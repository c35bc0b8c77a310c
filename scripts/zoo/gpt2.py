"""GPT-2 small as Hugging Face's eager model exports it."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx

from zoo.attention import attend, merge_heads, split_heads
from zoo.graph import Dim, Graph
from zoo.layers import gelu_tanh, gemm, layer_norm
from zoo.weights import lowest_number

POSITIONS = 1024


def gpt2(
    *,
    layers: int = 12,
    batch: int = 1,
    seq: int = 64,
    hidden: int = 768,
    heads: int = 12,
    vocabulary: int = 16384,
    mask: str = "where",
    tied: bool = True,
    dynamic: bool = False,
    decomposed: bool = True,
    dtype: str = "float32",
    opset: int = 17,
    seed: int = 0,
) -> onnx.ModelProto:
    """GPT-2 with its language-model head: input_ids (batch, seq) to logits.

    `mask`: the causal one, "where" with a boolean triangle or "additive". `tied`: the head
    multiplies by the transposed embedding table, else by a weight of its own.
    """
    g = Graph("gpt2", dtype, opset, seed)
    dims: tuple[Dim, Dim] = (batch, seq)
    if dynamic:
        dims = g.symbol("batch", batch), g.symbol("seq", seq)
    ids = g.input("input_ids", dims, "int64", below=vocabulary)
    norm = partial(layer_norm, g, shape=(hidden,), decomposed=decomposed)
    head_dims = (heads, hidden // heads)

    table = g.weight("transformer.wte.weight", (vocabulary, hidden), std=hidden**-0.5)
    places = g.weight("transformer.wpe.weight", (POSITIONS, hidden), std=0.02)
    words = g.op("Gather", table, ids)
    x = g.op("Add", words, g.op("Gather", places, _position_ids(g, ids, dims)))
    causal = _causal_mask(g, ids, dims, mask)
    for i in range(layers):
        prefix = f"transformer.h.{i}."
        with g.scope(f"h.{i}"):
            normal = norm(x, f"{prefix}ln_1.")
            packed = _conv1d(g, normal, f"{prefix}attn.c_attn.", dims, (hidden, 3 * hidden))
            query, key, value = g.split(packed, [hidden] * 3, axis=2)
            context = attend(
                g,
                split_heads(g, query, dims, head_dims),
                split_heads(g, key, dims, head_dims, transposed=True),
                split_heads(g, value, dims, head_dims),
                head_dims[1],
                mask=causal,
            )
            merged = merge_heads(g, context, dims, head_dims)
            x = g.op("Add", _conv1d(g, merged, f"{prefix}attn.c_proj.", dims, (hidden, hidden)), x)
            normal = norm(x, f"{prefix}ln_2.")
            wide = _conv1d(g, normal, f"{prefix}mlp.c_fc.", dims, (hidden, 4 * hidden))
            size = (4 * hidden, hidden)
            narrow = _conv1d(g, gelu_tanh(g, wide), f"{prefix}mlp.c_proj.", dims, size)
            x = g.op("Add", x, narrow)
    x = norm(x, "transformer.ln_f.")
    if tied:
        head = g.op("Transpose", table, perm=(1, 0))
    else:
        head = g.weight("lm_head.weight", (hidden, vocabulary), std=hidden**-0.5)
    g.output(g.op("MatMul", x, head), "logits", (*dims, vocabulary))
    return g.model()


def _position_ids(g: Graph, ids: str, dims: tuple[Dim, Dim]) -> str:
    if isinstance(dims[1], int):
        return g.constant(np.arange(dims[1])[None], "int64")
    zero, one = g.constant(0, "int64"), g.constant(1, "int64")
    return g.op("Unsqueeze", g.op("Range", zero, g.size(ids, 1), one), g.ints(0))


def _causal_mask(g: Graph, ids: str, dims: tuple[Dim, Dim], form: str):
    """Return the function that masks scores; the triangle is one shared buffer."""
    static = isinstance(dims[1], int)
    extent = dims[1] if static else POSITIONS
    triangle = np.tril(np.ones((1, 1, extent, extent), bool))
    lowest = lowest_number(g.dtype)
    if form == "where":
        mask = g.initializer("transformer.h.attn.bias", triangle)
    elif form == "additive":
        mask = g.constant(np.where(triangle, 0.0, lowest))
    else:
        raise ValueError(f"mask must be 'where' or 'additive', got {form!r}")
    if not static:
        end = g.shape(dims[1:], ids, dims)
        for axis in (2, 3):
            mask = g.op("Slice", mask, g.ints(0), end, g.ints(axis), g.ints(1))
    if form == "where":
        return lambda scores: g.op("Where", mask, scores, g.constant(lowest))
    return lambda scores: g.op("Add", scores, mask)


def _conv1d(g: Graph, x: str, prefix: str, dims: tuple[Dim, Dim], size: tuple[int, int]) -> str:
    """Hugging Face's Conv1D: Reshape to two axes, Gemm, Reshape back."""
    rows, columns = size
    flat = g.reshape(x, (-1, rows))
    y = gemm(g, flat, prefix, rows, columns, transposed=False)
    return g.reshape(y, (*dims, columns), x, (*dims, rows))
