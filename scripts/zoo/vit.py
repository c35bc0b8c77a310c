"""Vision Transformer as Hugging Face exports it with scaled_dot_product_attention."""

from __future__ import annotations

from functools import partial

import onnx

from zoo.attention import attend_prescaled, expand, merge_heads, split_heads
from zoo.graph import Dim, Graph
from zoo.layers import conv, gelu_erf, gemm, layer_norm, linear

EPS = 1e-12
VARIANTS = {"base": (768, 12), "small": (384, 6)}


def vit(
    *,
    variant: str = "base",
    layers: int = 12,
    batch: int = 1,
    image: int = 224,
    patch: int = 16,
    classes: int = 1000,
    dynamic: bool = False,
    decomposed: bool = True,
    dtype: str = "float32",
    opset: int = 17,
    seed: int = 0,
) -> onnx.ModelProto:
    """ViT-B/16 or ViT-S/16: pixel_values (batch, 3, image, image) to logits (batch, classes)."""
    hidden, heads = VARIANTS[variant]
    g = Graph("vit", dtype, opset, seed)
    size: Dim = g.symbol("batch", batch) if dynamic else batch
    pixels = g.input("pixel_values", (size, 3, image, image))
    norm = partial(layer_norm, g, shape=(hidden,), eps=EPS, decomposed=decomposed)
    x, tokens = _embeddings(g, pixels, (size, 3, image, image), patch, hidden)
    dims, head_dims = (size, tokens), (heads, hidden // heads)
    for i in range(layers):
        prefix = f"encoder.layer.{i}."
        with g.scope(f"encoder/layer.{i}"):
            normal = norm(x, f"{prefix}layernorm_before.")
            query, key, value = (
                linear(g, normal, f"{prefix}attention.attention.{part}.", hidden, hidden)
                for part in ("query", "key", "value")
            )
            context = attend_prescaled(
                g,
                split_heads(g, query, dims, head_dims),
                split_heads(g, key, dims, head_dims, transposed=True),
                split_heads(g, value, dims, head_dims),
                head_dims[1],
            )
            merged = merge_heads(g, context, dims, head_dims)
            attended = linear(g, merged, f"{prefix}attention.output.dense.", hidden, hidden)
            x = g.op("Add", attended, x)
            normal = norm(x, f"{prefix}layernorm_after.")
            wide = linear(g, normal, f"{prefix}intermediate.dense.", hidden, 4 * hidden)
            narrow = linear(g, gelu_erf(g, wide), f"{prefix}output.dense.", 4 * hidden, hidden)
            x = g.op("Add", narrow, x)
    x = norm(x, "layernorm.")
    first = g.op("Gather", x, g.constant(0, "int64"), axis=1)
    g.output(gemm(g, first, "classifier.", hidden, classes), "logits", (size, classes))
    return g.model()


def _embeddings(
    g: Graph, pixels: str, dims: tuple[Dim, ...], patch: int, hidden: int
) -> tuple[str, int]:
    """Patch convolution, class token and positions; return (batch, tokens, hidden) and tokens."""
    batch, channels, image, _ = dims
    if image % patch:
        raise ValueError(f"image {image} is not a multiple of patch {patch}")
    patches = (image // patch) ** 2
    shape = (hidden, channels, patch, patch)
    weight = g.weight("embeddings.projection.weight", shape, std=(channels * patch**2) ** -0.5)
    bias = g.weight("embeddings.projection.bias", (hidden,), std=0.1)
    x = conv(g, pixels, weight, bias, kernel=(patch, patch), stride=(patch, patch))
    x = g.reshape(x, (batch, hidden, patches), pixels, dims)
    x = g.op("Transpose", x, perm=(0, 2, 1))
    token = g.weight("embeddings.cls_token", (1, 1, hidden), std=0.5)
    token = expand(g, token, (batch, 1, hidden), pixels, dims)
    places = g.weight("embeddings.position_embeddings", (1, patches + 1, hidden), std=0.5)
    return g.op("Add", g.op("Concat", token, x, axis=1), places), patches + 1
