"""The encoder-decoder Transformer as torch.nn.MultiheadAttention exports it: (seq, batch, d)."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import onnx

from zoo.graph import Graph
from zoo.layers import gemm, layer_norm, linear
from zoo.weights import numpy_dtype


def encoder_decoder(
    *,
    layers: int = 6,
    batch: int = 1,
    source: int = 128,
    target: int = 64,
    hidden: int = 512,
    heads: int = 8,
    vocabulary: int = 16384,
    decomposed: bool = True,
    dtype: str = "float32",
    opset: int = 17,
    seed: int = 0,
) -> onnx.ModelProto:
    """Source and target ids to log-probabilities (batch, target, vocabulary).

    `layers` encoder and as many decoder layers, norm after each residual, ReLU; a causal -inf mask.
    """
    g = Graph("encoder_decoder", dtype, opset, seed)
    source_ids = g.input("source_ids", (batch, source), "int64", below=vocabulary)
    target_ids = g.input("target_ids", (batch, target), "int64", below=vocabulary)
    block = _Blocks(g, batch, hidden, heads, decomposed)
    with g.scope("encoder"):
        memory = block.embed(source_ids, "source_embedding.", vocabulary, source)
        for i in range(layers):
            prefix = f"encoder.layers.{i}."
            with g.scope(f"layers.{i}"):
                attended = block.self_attention(memory, f"{prefix}self_attn.", source)
                memory = block.norm(g.op("Add", memory, attended), f"{prefix}norm1.")
                fed = block.feed_forward(memory, prefix)
                memory = block.norm(g.op("Add", memory, fed), f"{prefix}norm2.")
        memory = block.norm(memory, "encoder.norm.")
    with g.scope("decoder"):
        x = block.embed(target_ids, "target_embedding.", vocabulary, target)
        mask = np.triu(np.full((target, target), -np.inf, np.float32), 1)
        mask = g.initializer("target_mask", mask.astype(numpy_dtype(dtype)))
        for i in range(layers):
            prefix = f"decoder.layers.{i}."
            with g.scope(f"layers.{i}"):
                attended = block.self_attention(x, f"{prefix}self_attn.", target, mask)
                x = block.norm(g.op("Add", x, attended), f"{prefix}norm1.")
                attended = block.cross_attention(
                    x, memory, f"{prefix}multihead_attn.", (target, source)
                )
                x = block.norm(g.op("Add", x, attended), f"{prefix}norm2.")
                x = block.norm(g.op("Add", x, block.feed_forward(x, prefix)), f"{prefix}norm3.")
        x = block.norm(x, "decoder.norm.")
    logits = linear(g, g.op("Transpose", x, perm=(1, 0, 2)), "generator.", hidden, vocabulary)
    g.output(g.op("LogSoftmax", logits, axis=-1), "log_probabilities", (batch, target, vocabulary))
    return g.model()


class _Blocks:
    """The layers' parts, over x (seq, batch, hidden)."""

    def __init__(self, g: Graph, batch: int, hidden: int, heads: int, decomposed: bool) -> None:
        self.g, self.batch, self.hidden = g, batch, hidden
        self.heads, self.head_size = heads, hidden // heads
        self.norm = partial(layer_norm, g, shape=(hidden,), decomposed=decomposed)

    def embed(self, ids: str, prefix: str, vocabulary: int, seq: int) -> str:
        """Look up, scale, add sinusoidal positions, put the sequence first."""
        g = self.g
        table = g.weight(f"{prefix}weight", (vocabulary, self.hidden), std=self.hidden**-0.5)
        x = g.op("Mul", g.op("Gather", table, ids), g.constant(math.sqrt(self.hidden)))
        x = g.op("Add", x, g.constant(_positions(seq, self.hidden)[None]))
        return g.op("Transpose", x, perm=(1, 0, 2))

    def self_attention(self, x: str, prefix: str, seq: int, mask: str | None = None) -> str:
        query, key, value = self._packed(x, f"{prefix}in_proj_", seq, 3)
        return self._attend((query, key, value), prefix, (seq, seq), mask)

    def cross_attention(self, x: str, memory: str, prefix: str, lengths: tuple[int, int]) -> str:
        query = linear(self.g, x, f"{prefix}q_proj_", self.hidden, self.hidden)
        key, value = self._packed(memory, f"{prefix}kv_proj_", lengths[1], 2)
        return self._attend((query, key, value), prefix, lengths, None)

    def feed_forward(self, x: str, prefix: str) -> str:
        g, wide = self.g, 4 * self.hidden
        inner = g.op("Relu", linear(g, x, f"{prefix}linear1.", self.hidden, wide))
        return linear(g, inner, f"{prefix}linear2.", wide, self.hidden)

    def _packed(self, x: str, prefix: str, seq: int, parts: int) -> list[str]:
        """One projection for `parts` tensors, taken apart as `unflatten` and `transpose` are."""
        g = self.g
        y = linear(g, x, prefix, self.hidden, parts * self.hidden)
        y = g.reshape(y, (seq, self.batch, parts, self.hidden))
        y = g.op("Transpose", g.op("Unsqueeze", y, g.ints(0)), perm=(3, 1, 2, 0, 4))
        y = g.op("Squeeze", y, g.ints(-2))
        return [g.op("Gather", y, g.constant(i, "int64"), axis=0) for i in range(parts)]

    def _attend(
        self,
        parts: tuple[str, str, str],
        prefix: str,
        lengths: tuple[int, int],
        mask: str | None,
    ) -> str:
        g, (queries, keys) = self.g, lengths
        rows = self.batch * self.heads
        query, key, value = (
            g.reshape(part, (length, rows, self.head_size))
            for part, length in zip(parts, (queries, keys, keys), strict=True)
        )
        query = g.op("Transpose", query, perm=(1, 0, 2))
        query = g.op("Mul", query, g.constant(self.head_size**-0.5))
        scores = g.op("MatMul", query, g.op("Transpose", key, perm=(1, 2, 0)))
        if mask is not None:
            scores = g.op("Add", scores, mask)
        value = g.op("Transpose", value, perm=(1, 0, 2))
        context = g.op("MatMul", g.op("Softmax", scores, axis=-1), value)
        context = g.op("Transpose", context, perm=(1, 0, 2))
        flat = g.reshape(context, (queries * self.batch, self.hidden))
        y = gemm(g, flat, f"{prefix}out_proj.", self.hidden, self.hidden)
        return g.reshape(y, (queries, self.batch, self.hidden))


def _positions(seq: int, hidden: int) -> np.ndarray:
    """Return the sinusoidal table (seq, hidden).

    Source: Vaswani et al., "Attention is all you need", 2017, section 3.5.
    """
    rate = np.exp(np.arange(0, hidden, 2) * (-math.log(10000.0) / hidden))
    angle = np.arange(seq)[:, None] * rate
    return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(seq, hidden)
