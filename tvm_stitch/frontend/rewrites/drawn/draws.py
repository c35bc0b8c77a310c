"""RandomUniform, RandomNormal, their Like forms, Bernoulli and Multinomial."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes
from tvm_stitch.frontend.rewrites.drawn.words import seed_of, uniform

DRAWN_OPS = (
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike",
)  # fmt: skip
_NEXT = 1 << 33  # from one seed to another of the same draw


def drawn(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: RandomNormal() -> sqrt(-2 * log(1 - u)) * cos(2 * pi * v)  # u, v uniform

    Multinomial(x) -> ArgMax(x - log(-log(u))), the Gumbel-max trick; Bernoulli(x) -> u < x.
    """
    if node.op_type not in DRAWN_OPS or node.domain:
        return None
    attrs = attributes(node)
    shape = attrs.get("shape") if not node.input else graph.static_shape(node.input[0])
    if shape is None:
        return None
    build, seed = Builder(graph, node), seed_of(node)
    given = np.dtype(np.float32) if not node.input else graph.type_of(node.input[0]).dtype
    if node.op_type == "Multinomial":
        made, dtype = _multinomial(build, shape, attrs, seed), np.dtype(np.int32)
    elif node.op_type == "Bernoulli":
        wide, dtype = _wide(given), given
        chance = build.reshape(uniform(build, math.prod(shape), seed, wide), list(shape))
        made = build("Less", chance, build.cast(node.input[0], wide))
    else:
        dtype = given
    if "dtype" in attrs:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(attrs["dtype"])
    if node.op_type.startswith("Random"):
        made = _numbers(build, shape, attrs, seed, _wide(dtype))
    build.cast(made, dtype, out=node.output[0])
    return build.nodes


def _wide(dtype: np.dtype) -> np.dtype:
    """Return the type that numbers are drawn in."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def _numbers(build: Builder, shape: Sequence[int], attrs: dict, seed: int, dtype: np.dtype) -> str:
    """Return uniform or normal numbers of a shape."""
    count = math.prod(shape)
    if build.replaced.op_type.startswith("RandomUniform"):
        first, made = attrs.get("low", 0.0), uniform(build, count, seed, dtype)
        size = attrs.get("high", 1.0) - first
    else:
        first, made = attrs.get("mean", 0.0), _normal(build, count, seed, dtype)
        size = attrs.get("scale", 1.0)
    made = build("Mul", made, build.constant(size, dtype))
    return build.reshape(build("Add", made, build.constant(first, dtype)), list(shape))


def _normal(build: Builder, count: int, seed: int, dtype: np.dtype) -> str:
    """Return numbers of mean 0 and deviation 1 (Box and Muller, 1958)."""
    one, other = (uniform(build, count, seed + n * _NEXT, dtype) for n in range(2))
    logarithm = build("Log", build("Sub", build.constant(1, dtype), one))
    size = build("Sqrt", build("Mul", logarithm, build.constant(-2, dtype)))
    return build("Mul", size, build("Cos", build("Mul", other, build.constant(2 * np.pi, dtype))))


def _multinomial(build: Builder, shape: Sequence[int], attrs: dict, seed: int) -> str:
    """Return the classes of each row's samples."""
    x = build.replaced.input[0]
    dtype = _wide(build.graph.type_of(x).dtype)
    (batch, classes), samples = shape, attrs.get("sample_size", 1)
    chance = uniform(build, batch * samples * classes, seed, dtype)
    chance = build("Max", chance, build.constant(2.0**-25, dtype))  # of 0 there is no logarithm
    noise = build("Log", build("Neg", build("Log", chance)))
    noise = build.reshape(noise, [batch, samples, classes])
    logits = build.reshape(build.cast(x, dtype), [batch, 1, classes])
    return build("ArgMax", build("Sub", logits, noise), axis=2, keepdims=0)
