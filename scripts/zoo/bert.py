"""BERT as Hugging Face's eager model exports it."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx

from zoo.attention import attend, merge_heads, padding_bias, split_heads
from zoo.graph import Dim, Graph
from zoo.layers import gelu_erf, gemm, layer_norm, linear

POSITIONS = 512
EPS = 1e-12


def bert(
    *,
    layers: int = 12,
    batch: int = 1,
    seq: int = 128,
    hidden: int = 768,
    heads: int = 12,
    vocabulary: int = 30522,
    mask: str = "-10000",
    dynamic: bool = False,
    decomposed: bool = True,
    dtype: str = "float32",
    opset: int = 17,
    seed: int = 0,
) -> onnx.ModelProto:
    """BERT-base with pooler: three int64 inputs (batch, seq), two outputs.

    `mask`: see `attention.padding_bias`. `dynamic` makes batch and seq symbolic and adds the
    exporter's shape subgraphs. `decomposed`: LayerNorm as nine ops, else as one.
    """
    g = Graph("bert", dtype, opset, seed)
    dims: tuple[Dim, Dim] = (batch, seq)
    if dynamic:
        dims = g.symbol("batch", batch), g.symbol("seq", seq)
    ids = g.input("input_ids", dims, "int64", below=vocabulary)
    token_types = g.input("token_type_ids", dims, "int64", below=2)
    attention_mask = g.input("attention_mask", dims, "int64", below=2)
    norm = partial(layer_norm, g, shape=(hidden,), eps=EPS, decomposed=decomposed)

    with g.scope("embeddings"):
        x = _embeddings(g, ids, token_types, dims, (vocabulary, hidden))
        x = norm(x, "embeddings.LayerNorm.")
    bias = padding_bias(g, attention_mask, dims, mask)
    for i in range(layers):
        prefix = f"encoder.layer.{i}."
        with g.scope(f"encoder/layer.{i}"):
            context = _self_attention(g, x, prefix, dims, (heads, hidden // heads), bias=bias)
            attended = linear(g, context, f"{prefix}attention.output.dense.", hidden, hidden)
            x = norm(g.op("Add", attended, x), f"{prefix}attention.output.LayerNorm.")
            wide = linear(g, x, f"{prefix}intermediate.dense.", hidden, 4 * hidden)
            narrow = linear(g, gelu_erf(g, wide), f"{prefix}output.dense.", 4 * hidden, hidden)
            x = norm(g.op("Add", narrow, x), f"{prefix}output.LayerNorm.")
    with g.scope("pooler"):
        first = g.op("Gather", x, g.constant(0, "int64"), axis=1)
        pooled = g.op("Tanh", gemm(g, first, "pooler.dense.", hidden, hidden))
    g.output(x, "last_hidden_state", (*dims, hidden))
    g.output(pooled, "pooler_output", (dims[0], hidden))
    return g.model()


def _embeddings(
    g: Graph, ids: str, token_types: str, dims: tuple[Dim, Dim], table: tuple[int, int]
) -> str:
    vocabulary, hidden = table
    words = g.weight("embeddings.word_embeddings.weight", (vocabulary, hidden), std=0.5)
    types = g.weight("embeddings.token_type_embeddings.weight", (2, hidden), std=0.5)
    places = g.weight("embeddings.position_embeddings.weight", (POSITIONS, hidden), std=0.5)
    position_ids = g.initializer("embeddings.position_ids", np.arange(POSITIONS)[None])
    end = g.shape(dims[1:], ids, dims)
    position_ids = g.op("Slice", position_ids, g.ints(0), end, g.ints(1), g.ints(1))
    x = g.op("Add", g.op("Gather", words, ids), g.op("Gather", types, token_types))
    return g.op("Add", x, g.op("Gather", places, position_ids))


def _self_attention(
    g: Graph, x: str, prefix: str, dims: tuple[Dim, Dim], heads: tuple[int, int], *, bias: str
) -> str:
    hidden = heads[0] * heads[1]
    query, key, value = (
        linear(g, x, f"{prefix}attention.self.{part}.", hidden, hidden)
        for part in ("query", "key", "value")
    )
    context = attend(
        g,
        split_heads(g, query, dims, heads),
        split_heads(g, key, dims, heads, transposed=True),
        split_heads(g, value, dims, heads),
        heads[1],
        mask=lambda scores: g.op("Add", scores, bias),
    )
    return merge_heads(g, context, dims, heads)
