"""The operators that blocks are written in: each appends one node and computes its answer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import special as functions

from support.blocks.graph import BlockGraph
from support.random_graphs import values as rv
from support.random_graphs.ops import onnx_type
from support.random_graphs.values import Value


def weight(g: BlockGraph, *shape: int, fan_in: int = 1) -> Value:
    """Add a constant of normal numbers that keeps the size of a product over `fan_in` terms."""
    numbers = g.noise.standard_normal(shape) / math.sqrt(max(fan_in, 1))
    return g.constant(numbers, g.dtype)


def number(g: BlockGraph, value: float) -> Value:
    return g.constant(value, g.dtype)


def matmul(g: BlockGraph, a: Value, b: Value) -> Value:
    return g.rounded("MatMul", np.matmul, [a, b], accumulates=True)


def add(g: BlockGraph, a: Value, b: Value) -> Value:
    return g.rounded("Add", np.add, [a, b])


def sub(g: BlockGraph, a: Value, b: Value) -> Value:
    return g.rounded("Sub", np.subtract, [a, b])


def mul(g: BlockGraph, a: Value, b: Value) -> Value:
    return g.rounded("Mul", np.multiply, [a, b])


def div(g: BlockGraph, a: Value, b: Value) -> Value:
    return g.rounded("Div", np.divide, [a, b])


def scaled(g: BlockGraph, x: Value, by: float) -> Value:
    """x * by, written as a product or a division."""
    if g.rng.random() < 0.5:
        return mul(g, x, number(g, by))
    return div(g, x, number(g, 1 / by))


def masked_add(g: BlockGraph, x: Value, mask: Value) -> Value:
    """Append an addition in which huge terms swallow others, as they do in x's dtype.

    Halves may be added in float32, where they do not: a kernel's intermediates are, as ONNX
    Runtime's are.
    """
    if x.dtype in rv.HALF:
        return add(g, x, mask)
    dtype = rv.numpy_dtype(x.dtype)

    def function(a, b):
        with np.errstate(all="ignore"):
            return (a.astype(np.float64) + b).astype(dtype).astype(np.float64)

    return g.select("Add", function, [x, mask], x.dtype)


def reshape(g: BlockGraph, x: Value, *shape: int) -> Value:
    shape = tuple(int(extent) for extent in shape)
    written = list(shape)
    if g.rng.random() < 0.3 and 0 not in shape and shape:
        written[g.rng.randrange(len(shape))] = -1
    extra = [g.constant(written, "int64")]
    return g.layout("Reshape", lambda a: a.reshape(shape), [x], extra)


def transpose(g: BlockGraph, x: Value, *perm: int) -> Value:
    return g.layout("Transpose", lambda a: a.transpose(perm), [x], perm=list(perm))


def swap(g: BlockGraph, x: Value, one: int = -1, other: int = -2) -> Value:
    perm = list(range(x.rank))
    perm[one], perm[other] = perm[other], perm[one]
    return transpose(g, x, *perm)


def unsqueeze(g: BlockGraph, x: Value, axis: int) -> Value:
    extra = [g.constant([axis], "int64")]
    return g.layout("Unsqueeze", lambda a: np.expand_dims(a, axis), [x], extra)


def squeeze(g: BlockGraph, x: Value, axis: int) -> Value:
    extra = [g.constant([axis], "int64")]
    return g.layout("Squeeze", lambda a: np.squeeze(a, axis), [x], extra)


def expand(g: BlockGraph, x: Value, *shape: int) -> Value:
    extra = [g.constant(shape, "int64")]
    return g.layout("Expand", lambda a: np.broadcast_to(a, shape).copy(), [x], extra)


def cut(g: BlockGraph, x: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
    """x[start:stop:step] along an axis, 0 <= start < stop <= extent and step above 0."""
    axis %= x.rank
    where = (slice(None),) * axis + (slice(start, stop, step),)
    end = 2**62 if stop == x.shape[axis] and g.rng.random() < 0.5 else stop
    if start and g.rng.random() < 0.3:
        written = (start - x.shape[axis], end, axis, step)
    else:
        written = (start, end, axis, step)
    extra = [g.constant([n], "int64") for n in written]
    return g.layout("Slice", lambda a: a[where], [x], extra)


def pick(g: BlockGraph, x: Value, axis: int, index: int) -> Value:
    """x[index] along an axis, without it: a Gather, or a slice and a squeeze."""
    axis %= x.rank
    if g.rng.random() < 0.5:
        extra = [g.constant(index, "int64")]
        return g.layout("Gather", lambda a: np.take(a, index, axis), [x], extra, axis=axis)
    return squeeze(g, cut(g, x, axis, index, index + 1), axis)


def concat(g: BlockGraph, parts: Sequence[Value], axis: int) -> Value:
    return g.layout("Concat", lambda *xs: np.concatenate(xs, axis), list(parts), axis=axis)


def chunks(g: BlockGraph, x: Value, sizes: Sequence[int], axis: int) -> list[Value]:
    """Cut a value in parts of these sizes: a Split, or slices."""
    axis %= x.rank
    ends = np.cumsum(sizes)
    spans = [(int(e - s), int(e)) for s, e in zip(sizes, ends, strict=True)]
    if g.rng.random() < 0.5:
        return [cut(g, x, axis, *span) for span in spans]
    lead = (slice(None),) * axis
    parts = [lambda a, w=(*lead, slice(*span)): a[w] for span in spans]
    return g.split("Split", parts, x, [g.constant(sizes, "int64")], axis=axis)


def reduced(g: BlockGraph, op: str, x: Value, axes: Sequence[int], keepdims: bool = True) -> Value:
    """ReduceMean, ReduceSum, ReduceMax, ReduceMin or ReduceL2 over axes of either sign."""
    axes = tuple(axes)
    extra = [g.constant(axes, "int64")]
    function = _REDUCTIONS[op]

    def over(a: np.ndarray) -> np.ndarray:
        return function(a, axis=axes, keepdims=keepdims)

    if op in ("ReduceMax", "ReduceMin"):
        return g.select(op, over, [x], extra=extra, keepdims=int(keepdims))
    return g.rounded(op, over, [x], extra=extra, accumulates=True, keepdims=int(keepdims))


_REDUCTIONS = {
    "ReduceMean": np.mean,
    "ReduceSum": np.sum,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceL2": lambda a, **over: np.sqrt(np.square(a).sum(**over)),
}


def softmax(g: BlockGraph, x: Value, axis: int = -1) -> Value:
    """The operator, or its parts as some exporters write them."""
    if g.rng.random() < 0.85:

        def weights(a: np.ndarray) -> np.ndarray:
            powers = np.exp(a - a.max(axis, keepdims=True))
            return powers / powers.sum(axis, keepdims=True)

        return g.rounded("Softmax", weights, [x], axis=axis)
    shifted = sub(g, x, reduced(g, "ReduceMax", x, [axis]))
    powers = g.rounded("Exp", np.exp, [shifted])
    return div(g, powers, reduced(g, "ReduceSum", powers, [axis]))


def sqrt(g: BlockGraph, x: Value) -> Value:
    return g.rounded("Sqrt", np.sqrt, [x])


def where(g: BlockGraph, condition: Value, a: Value, b: Value) -> Value:
    return g.select("Where", np.where, [condition, a, b])


def cast(g: BlockGraph, x: Value, to: str) -> Value:
    """Cast an exact value between types that hold its numbers."""
    kind = np.float64 if to in rv.FLOATS else to
    return g.select("Cast", lambda a: a.astype(kind), [x], to, to=onnx_type(to))


def sigmoid(a: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-a))


def activation(g: BlockGraph, x: Value) -> Value:
    return g.rng.choice(_ACTIVATIONS)(g, x)


def _unary(op: str, function):
    return lambda g, x: g.rounded(op, function, [x])


def _relu(g: BlockGraph, x: Value) -> Value:
    return g.select("Relu", lambda a: np.maximum(a, 0.0), [x])


def _relu6(g: BlockGraph, x: Value) -> Value:
    bounds = [number(g, 0.0), number(g, 6.0)]
    return g.select("Clip", lambda a: np.clip(a, 0.0, 6.0), [x], extra=bounds)


def _leaky(g: BlockGraph, x: Value) -> Value:
    return g.rounded("LeakyRelu", lambda a: np.where(a < 0, 0.25 * a, a), [x], alpha=0.25)


def _elu(g: BlockGraph, x: Value) -> Value:
    if x.dtype != "float32":  # TVM's importer has it of float32 only
        return _leaky(g, x)
    return g.rounded("Elu", lambda a: np.where(a < 0, np.expm1(a), a), [x], alpha=1.0)


def _prelu(g: BlockGraph, x: Value) -> Value:
    if x.dtype == "bfloat16":
        return _leaky(g, x)
    slope = g.constant(g.rng.choice((0.25, 0.1)), g.dtype)
    slope.lanes = tuple(np.reshape(lane, (1,) * min(x.rank, 1)) for lane in slope.lanes)
    return g.rounded("PRelu", lambda a, s: np.where(a < 0, s * a, a), [x, slope])


def _silu(g: BlockGraph, x: Value) -> Value:
    return mul(g, x, g.rounded("Sigmoid", sigmoid, [x]))


def _hard_swish(g: BlockGraph, x: Value) -> Value:
    shifted = add(g, x, number(g, 3.0))
    bounds = [number(g, 0.0), number(g, 6.0)]
    gate = g.select("Clip", lambda a: np.clip(a, 0.0, 6.0), [shifted], extra=bounds)
    return div(g, mul(g, x, gate), number(g, 6.0))


def _gelu_erf(g: BlockGraph, x: Value) -> Value:
    inner = g.rounded("Erf", functions.erf, [div(g, x, number(g, 1.4142135))])
    shifted = add(g, inner, number(g, 1.0))
    if g.rng.random() < 0.5:
        return mul(g, mul(g, x, shifted), number(g, 0.5))
    return mul(g, mul(g, x, number(g, 0.5)), shifted)


def _gelu_tanh(g: BlockGraph, x: Value) -> Value:
    if g.rng.random() < 0.5:
        cube = g.rounded("Pow", lambda a: np.power(a, 3.0), [x], extra=[number(g, 3.0)])
    else:
        cube = mul(g, x, mul(g, x, x))
    inner = mul(g, add(g, x, mul(g, cube, number(g, 0.044715))), number(g, 0.7978845608))
    shifted = add(g, g.rounded("Tanh", np.tanh, [inner]), number(g, 1.0))
    return mul(g, mul(g, x, number(g, 0.5)), shifted)


def _quick_gelu(g: BlockGraph, x: Value) -> Value:
    return mul(g, x, g.rounded("Sigmoid", sigmoid, [mul(g, x, number(g, 1.702))]))


def _mish(g: BlockGraph, x: Value) -> Value:
    if x.dtype == "bfloat16":
        return _silu(g, x)
    soft = g.rounded("Softplus", lambda a: np.logaddexp(a, np.zeros_like(a)), [x])
    return mul(g, x, g.rounded("Tanh", np.tanh, [soft]))


def _squared_relu(g: BlockGraph, x: Value) -> Value:
    y = _relu(g, x)
    return mul(g, y, y)


_ACTIVATIONS = (
    _relu,
    _relu,
    _relu6,
    _leaky,
    _elu,
    _prelu,
    _silu,
    _silu,
    _hard_swish,
    _gelu_erf,
    _gelu_erf,
    _gelu_tanh,
    _quick_gelu,
    _mish,
    _squared_relu,
    _unary("Sigmoid", sigmoid),
    _unary("Tanh", np.tanh),
)
