"""Blocks made of blocks: transformer layers, heads, and the orders that architectures have."""

from __future__ import annotations

from collections.abc import Callable

from support.blocks import ops as op
from support.blocks.attention import attention, pooled_attention
from support.blocks.convolutions import (
    conv_norm_act,
    convolution,
    inverted_residual,
    pointwise,
    squeeze_excite,
    temporal,
    transposed,
)
from support.blocks.graph import BlockGraph
from support.blocks.layouts import (
    merged_patches,
    patches,
    positions,
    to_image,
    to_tokens,
    to_vector,
    unfolded,
    windows,
    with_class_token,
)
from support.blocks.norms import norm, response_norm, token_norm
from support.blocks.pools import pixels_to_channels, pool, resize
from support.blocks.products import gated, linear, masked_tokens, mlp, recurrent
from support.random_graphs.values import Value

Block = Callable[[BlockGraph, Value], Value | None]


def transformer(g: BlockGraph, x: Value) -> Value | None:
    """Attention and an MLP, one behind the other or side by side (Falcon, GPT-J)."""
    if x.rank != 3:
        return None
    y = token_norm(g, x)
    a = attention(g, y)
    if a is None or a.shape != x.shape:
        return a
    if g.rng.random() < 0.3:
        m = _width_kept(g, mlp(g, y if g.rng.random() < 0.7 else token_norm(g, x)), x)
        return op.add(g, op.add(g, a, m), x)
    y = op.add(g, x, a)
    return op.add(g, y, _width_kept(g, mlp(g, token_norm(g, y)), x))


def _width_kept(g: BlockGraph, y: Value, x: Value) -> Value:
    return y if y.shape == x.shape else linear(g, y, x.shape[-1])


def head(g: BlockGraph, x: Value) -> Value | None:
    """Tokens or pixels to one vector, normalised, projected."""
    before = token_norm(g, x) if g.rng.random() < 0.4 else x
    y = to_vector(g, before)
    if y is None:
        return None
    if g.rng.random() < 0.6:
        y = token_norm(g, y)
    return linear(g, y) if g.rng.random() < 0.8 else y


def patch_transformer(g: BlockGraph, x: Value) -> Value | None:
    return unfolded(g, x, transformer)


def pooled_difference(g: BlockGraph, x: Value) -> Value | None:
    """What pooling takes away (PoolFormer)."""
    y = pool(g, x)
    return op.sub(g, y, x) if y is not None and y.shape == x.shape else y


def branches(g: BlockGraph, x: Value) -> Value | None:
    """Several convolutions of one image side by side, joined along channels (Inception)."""
    parts = [convolution(g, x) for _ in range(g.rng.randint(2, 3))]
    parts = [part for part in parts if part is not None]
    fitting = [part for part in parts if part.shape[2:] == parts[0].shape[2:]]
    if not fitting or sum(part.ref.size for part in fitting) > g.limit:
        return parts[0] if parts else None
    return op.concat(g, [x, *fitting] if fitting[0].shape[2:] == x.shape[2:] else fitting, 1)


def residual(block: Block) -> Block:
    """Return x + block(norm(x)), x + norm(block(x)) or norm(x + block(x))."""

    def around(g: BlockGraph, x: Value) -> Value | None:
        where = g.rng.choice(("before", "before", "before", "inside", "behind", "none"))
        y = block(g, token_norm(g, x) if where == "before" else x)
        if y is None or y.shape != x.shape or y.dtype != x.dtype:
            return y
        if where == "inside":  # Swin V2
            y = token_norm(g, y)
        if g.rng.random() < 0.2:
            y = op.mul(g, y, op.weight(g, y.shape[-1]))  # layer scale
        y = op.add(g, x, y) if g.rng.random() < 0.5 else op.add(g, y, x)
        return token_norm(g, y) if where == "behind" else y

    return around


def classifier(g: BlockGraph, x: Value) -> Value | None:
    """A norm of tokens or of their mean, and a linear layer (ViT, BEiT, DeiT)."""
    y = head(g, token_norm(g, x) if g.rng.random() < 0.5 else x)
    return y


def local_and_global(g: BlockGraph, x: Value) -> Value | None:
    """Convolutions, a transformer over patches, joined with the image before (MobileViT)."""
    y = convolution(g, x)
    y = y and patch_transformer(g, y)
    y = y and pointwise(g, y, x.shape[1])
    if y is None or y.shape != x.shape or 2 * x.ref.size > g.limit:
        return y
    return convolution(g, op.concat(g, [x, y], 1))


def channels_last(g: BlockGraph, x: Value) -> Value | None:
    return op.transpose(g, x, 0, 2, 3, 1) if x.rank == 4 else None


def decoder_layer(g: BlockGraph, x: Value) -> Value | None:
    """Attention on itself, on other tokens, an MLP: two of them."""
    for block in g.rng.sample((attention, attention, mlp), 2):
        y = residual(block)(g, x)
        x = y if y is not None and y.shape == x.shape else x
    return x


SWIN = residual(windows)
FEED_FORWARD = residual(mlp)
SELF = residual(attention)
# The kind of input, and blocks in their order; of a tuple, one.
MODELS = (
    ("image", patches, with_class_token, transformer, classifier),
    ("image", patches, (with_class_token, positions), SELF, (FEED_FORWARD, transformer), head),
    ("image", conv_norm_act, patches, with_class_token, SELF, classifier),
    ("image", patches, SWIN, FEED_FORWARD, head),
    ("image", channels_last, SWIN, merged_patches, linear, SWIN, head),
    ("image", (conv_norm_act, inverted_residual), local_and_global, (head, pool)),
    ("image", conv_norm_act, patch_transformer, head),
    ("image", conv_norm_act, inverted_residual, squeeze_excite, head, linear),
    (
        "image",
        convolution,
        (residual(response_norm), norm),
        pixels_to_channels,
        conv_norm_act,
        pool,
    ),
    ("image", conv_norm_act, pool, transposed, (resize, conv_norm_act), branches),
    ("image", conv_norm_act, to_tokens, masked_tokens, SELF, to_image, convolution),
    ("ids", positions, transformer, (norm, linear)),
    ("ids", token_norm, SELF, residual(gated), (token_norm, head), linear),
    ("ids", decoder_layer, token_norm, linear),
    ("ids", recurrent, (head, linear)),
    ("sequence", temporal, temporal, (temporal, to_vector), (head, linear)),
    ("sequence", temporal, to_tokens, (recurrent, SELF), (head, pooled_attention)),
    ("tokens", transformer, (head, transformer, pooled_attention), linear),
    ("tokens", decoder_layer, classifier),
    ("tokens", recurrent, (linear, head)),
)
