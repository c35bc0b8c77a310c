"""Random small networks: blocks of real architectures, composed at random, with their answers."""

from __future__ import annotations

from random import Random

import numpy as np

from support.blocks import ops as op
from support.blocks.attention import (
    attention,
    channel_attention,
    linear_attention,
    pooled_attention,
)
from support.blocks.convolutions import (
    conv_norm_act,
    convolution,
    inverted_residual,
    squeeze_excite,
    temporal,
    transposed,
)
from support.blocks.graph import BlockGraph
from support.blocks.layouts import (
    from_vector,
    merged_patches,
    patches,
    positions,
    to_image,
    to_tokens,
    windows,
    with_class_token,
)
from support.blocks.models import (
    MODELS,
    branches,
    head,
    patch_transformer,
    pooled_difference,
    residual,
    transformer,
)
from support.blocks.norms import norm, response_norm
from support.blocks.pools import padded, pixels_to_channels, pool, resize, shuffle
from support.blocks.products import embedding, gated, linear, masked_tokens, mlp, product, recurrent
from support.blocks.special import planted
from support.random_graphs import values as rv
from support.random_graphs.graphs import _choose_outputs
from support.random_graphs.ops import OPS
from support.random_graphs.values import Value

DTYPES = ("float32",) * 16 + ("float64", "float16", "float16", "bfloat16")
LIMITS = (1 << 12, 1 << 15, 1 << 15, 1 << 16, 1 << 18)  # elements of the largest tensor
NODES = (1, 1, 2, 4, 6, 8, 12, 20)
ENOUGH = 20
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
    x = (_model if rng.random() < 0.2 else _mixture)(g, special)
    if not g.nodes:
        x = norm(g, x)
    _choose_outputs(g)
    if x not in g.outputs and x.name in g.steps:
        g.outputs.append(x)
    return g


def _model(g: BlockGraph, special: bool) -> Value:
    """Draw blocks in the order of a known architecture, each left out if it does not fit."""
    kind, *blocks = g.rng.choice(MODELS)
    x, planted_at = _start(g, kind), g.rng.randrange(len(blocks))
    for number, choice in enumerate(blocks):
        block = g.rng.choice(choice) if isinstance(choice, tuple) else choice
        y = block(g, x)
        x = y if _goes_on(g, y) else x
        if special and number == planted_at:
            x = planted(g, x)
        if len(g.nodes) > ENOUGH:
            break
    return x


def _mixture(g: BlockGraph, special: bool) -> Value:
    """Draw blocks in any order until there are nodes enough."""
    rng, wanted = g.rng, g.rng.choice(NODES)
    x = _start(g, rng.choice(STARTS))
    for _ in range(wanted):
        if len(g.nodes) >= wanted:
            break
        before = g.pick(lambda v: v.is_float and v.dtype == g.dtype) if rng.random() < 0.08 else x
        x = _stage(g, before if before and before.rank else x)
        if special and len(g.nodes) > wanted / 2:
            x, special = planted(g, x), False
        if rng.random() < 0.1:
            rng.choices(*zip(*OPS, strict=True))[0](g)
    return x


def _start(g: BlockGraph, kind: str) -> Value:
    """Draw the first value: tokens, an image, a sequence, a volume, a vector, embedded ids."""
    rng = g.rng
    batch = rng.choice(BATCHES)
    if g.dtype == "bfloat16" and kind != "ids":
        kind = "tokens"
    if kind == "ids":
        ids = g.input((batch, rng.choice(TOKENS)), rng.choice(("int64", "int32")))
        return embedding(g, ids)
    for _ in range(TRIES):
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


def _goes_on(g: BlockGraph, y: Value | None) -> bool:
    return y is not None and y.dtype == g.dtype and y.rank > 0 and 0 not in y.shape


def _stage(g: BlockGraph, x: Value) -> Value:
    """Append a block to x, or a residual around one; first a norm if numbers grew too large."""
    if rv.largest(x) > LARGE and x.rank:
        return norm(g, x)
    functions, weights = zip(*BLOCKS.get(x.rank, ANY), strict=True)
    for _ in range(TRIES):
        block = g.rng.choices(functions, weights)[0]
        y = (residual(block) if g.rng.random() < 0.5 else block)(g, x)
        if _goes_on(g, y):
            return y
    return op.activation(g, x)


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
