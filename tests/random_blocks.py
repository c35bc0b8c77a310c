"""Random small networks: blocks of real architectures, composed at random, with their answers."""

from __future__ import annotations

from random import Random

import block_ops as op
import numpy as np
import random_values as rv
from block_attention import attention, channel_attention, linear_attention, pooled_attention
from block_convolutions import (
    conv_norm_act,
    convolution,
    inverted_residual,
    squeeze_excite,
    temporal,
    transposed,
)
from block_graph import BlockGraph
from block_layouts import (
    from_vector,
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
from block_norms import norm, response_norm, token_norm
from block_pools import padded, pixels_to_channels, pool, resize, shuffle
from block_products import embedding, gated, linear, masked_tokens, mlp, product, recurrent
from block_special import planted
from random_graphs import _choose_outputs
from random_ops import OPS
from random_values import Value

DTYPES = ("float32",) * 16 + ("float64", "float16", "float16", "bfloat16")
LIMITS = (1 << 12, 1 << 15, 1 << 15, 1 << 16, 1 << 18)  # elements of the largest tensor
NODES = (1, 1, 4, 8, 12, 20)
BATCHES = (1, 1, 1, 2, 2, 3)
TOKENS = (1, 2, 5, 7, 9, 16, 16, 17, 25, 33, 49, 64, 64, 65, 100, 128, 197)
CHANNELS = (1, 3, 8, 15, 16, 24, 32, 32, 48, 64, 64, 96, 100, 128)
SIDES = (1, 2, 4, 5, 7, 8, 8, 12, 14, 16, 16, 24, 28, 32)
STARTS = (*("tokens",) * 4, *("image",) * 5, "ids", "vector", "sequence", "volume")
LARGE = 30.0  # values beyond it are normalised first
TRIES = 12


def random_network(rng: Random) -> BlockGraph:
    """Draw a network with its inputs and what its outputs should be."""
    dtype, special = rng.choice(DTYPES), rng.random() < 0.15
    g = BlockGraph(
        rng, rng.choice(LIMITS), 0.0, np.random.default_rng(rng.getrandbits(32)), dtype=dtype,
        opset=rng.choice((18, 18, 18, 20)),
    )  # fmt: skip
    x = _start(g)
    wanted = rng.choice(NODES)
    for _ in range(wanted):
        if len(g.nodes) >= wanted:
            break
        before = g.pick(lambda v: v.is_float and v.dtype == g.dtype) if rng.random() < 0.08 else x
        x = _stage(g, before or x)
        if special and len(g.nodes) > wanted / 2:
            x, special = planted(g, x), False
        if rng.random() < 0.1:
            rng.choices(*zip(*OPS, strict=True))[0](g)
    if not g.nodes:
        x = norm(g, x)
    _choose_outputs(g)
    if x not in g.outputs and x.name in g.steps:
        g.outputs.append(x)
    return g


def _start(g: BlockGraph) -> Value:
    """Draw the first value: tokens, an image, a sequence, a volume, a vector, embedded ids."""
    rng = g.rng
    batch = rng.choice(BATCHES)
    for _ in range(TRIES):
        kind = rng.choice(STARTS)
        if g.dtype == "bfloat16" and kind != "ids":
            kind = "tokens"
        if kind == "ids":
            ids = g.input((batch, rng.choice(TOKENS)), rng.choice(("int64", "int32")))
            return embedding(g, ids)
        shape = {
            "tokens": (batch, rng.choice(TOKENS), rng.choice(CHANNELS)),
            "sequence": (batch, rng.choice(CHANNELS), rng.choice(TOKENS)),
            "image": (batch, rng.choice(CHANNELS), rng.choice(SIDES), rng.choice(SIDES)),
            "volume": (1, rng.choice(CHANNELS[:6]), *(rng.choice(SIDES[:7]) for _ in range(3))),
            "vector": (batch * 8, rng.choice(CHANNELS)),
        }[kind]
        if kind == "image" and rng.random() < 0.7:
            shape = (*shape[:3], shape[2])
        if g.fits(shape):
            return g.input(shape, g.dtype)
    return g.input((1, 8, 8), g.dtype)


def _stage(g: BlockGraph, x: Value) -> Value:
    """Append a block to x and return its result, of its dtype and not too large."""
    if rv.largest(x) > LARGE and x.rank:
        return norm(g, x)
    for _ in range(TRIES):
        y = _around(g, x)
        if y is not None and y.dtype == g.dtype and y.rank and 0 not in y.shape:
            return y
    return op.activation(g, x)


def _around(g: BlockGraph, x: Value) -> Value | None:
    """A block alone, or a residual around one: the norm before it, behind the sum, or none."""
    kinds = BLOCKS.get(x.rank, ANY)
    functions, weights = zip(*kinds, strict=True)
    block = g.rng.choices(functions, weights)[0]
    if g.rng.random() < 0.5:
        return block(g, x)
    where = g.rng.choice(("before", "before", "behind", "inside", "none"))
    y = block(g, token_norm(g, x) if where == "before" else x)
    if y is None or y.shape != x.shape or y.dtype != x.dtype:
        return y
    if where == "inside":  # Swin V2
        y = token_norm(g, y)
    if g.rng.random() < 0.2:
        y = op.mul(g, y, op.weight(g, y.shape[-1]))  # layer scale
    y = op.add(g, x, y) if g.rng.random() < 0.5 else op.add(g, y, x)
    return token_norm(g, y) if where == "behind" else y


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


ANY = (
    (linear, 4),
    (mlp, 4),
    (gated, 2),
    (norm, 3),
    (op.activation, 2),
    (padded, 1),
    (product, 2),
)
BLOCKS = {
    2: (*ANY, (from_vector, 4)),
    3: (
        *ANY,
        (transformer, 5),
        (attention, 5),
        (channel_attention, 1),
        (linear_attention, 1),
        (pooled_attention, 2),
        (windows, 3),
        (head, 4),
        (with_class_token, 2),
        (positions, 1),
        (masked_tokens, 1),
        (recurrent, 2),
        (temporal, 3),
        (to_image, 3),
        (to_tokens, 1),
        (convolution, 2),
        (pool, 1),
        (squeeze_excite, 1),
        (shuffle, 1),
    ),
    4: (
        (norm, 2),
        (op.activation, 2),
        (linear, 1),
        (mlp, 1),
        (product, 1),
        (convolution, 5),
        (conv_norm_act, 5),
        (inverted_residual, 4),
        (squeeze_excite, 3),
        (transposed, 2),
        (pool, 3),
        (pooled_difference, 1),
        (resize, 1),
        (pixels_to_channels, 2),
        (shuffle, 1),
        (branches, 2),
        (padded, 1),
        (patches, 4),
        (to_tokens, 3),
        (head, 2),
        (windows, 2),
        (merged_patches, 1),
        (patch_transformer, 3),
        (response_norm, 1),
    ),
    5: ((convolution, 4), (conv_norm_act, 3), (pool, 2), (transposed, 1), (head, 1), (norm, 2),
        (to_tokens, 2), (squeeze_excite, 1), (op.activation, 1)),
}  # fmt: skip
