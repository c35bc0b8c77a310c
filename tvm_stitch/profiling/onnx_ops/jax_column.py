"""The jax.numpy column: ONNX ops as jax functions."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from jax import lax, nn

from ..peer import CannotRun
from .graph import Node, Row
from .shapes import last_axis_softmax, slices, split_sizes, windows

Array = jax.Array
_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def constant(array: np.ndarray) -> Any:
    """Return a scalar as it is: a literal of XLA's program, not an argument."""
    return array


def _reduction(function: Any) -> Row:
    """Wrap `function(x, axes, keepdims)` as a Reduce op."""

    def row(n: Node, x: Array, axes: np.ndarray | None = None) -> Array:
        named = n.axes(axes)
        if not named and n.get("noop_with_empty_axes"):
            return x
        return function(x, tuple(named) if named else None, bool(n.get("keepdims", 1)))

    return row


def _fold(function: Any) -> Row:
    def row(n: Node, first: Array, *rest: Array) -> Array:
        for each in rest:
            first = function(first, each)
        return first

    return row


def _cast(n: Node, x: Array) -> Array:
    return lax.convert_element_type(x, onnx.helper.tensor_dtype_to_np_dtype(n.get("to")))


def _clip(n: Node, x: Array, low: Any = None, high: Any = None) -> Array:
    return jnp.clip(x, n.get("min", low), n.get("max", high))


def _slice(n: Node, x: Array, *operands: np.ndarray) -> Array:
    kept = slices(x.shape, *operands)
    starts, stops = [r[-1] if r.step < 0 and r else r.start for r in kept], []
    stops = [0 if not r else max(r[0], r[-1]) + 1 for r in kept]
    starts = [min(start, stop) for start, stop in zip(starts, stops, strict=True)]
    x = lax.slice(x, starts, stops, [abs(r.step) for r in kept])
    return lax.rev(x, [axis for axis, r in enumerate(kept) if r.step < 0])


def _gather(n: Node, x: Array, index: Array) -> Array:
    return jnp.take(x, index, n.get("axis", 0), mode="wrap")


def _gather_elements(n: Node, x: Array, index: Array) -> Array:
    axis = n.get("axis", 0)
    index = jnp.where(index < 0, index + x.shape[axis], index)
    kept = [slice(0, d) for d in index.shape]
    kept[axis] = slice(None)
    return jnp.take_along_axis(x[tuple(kept)], index, axis)


def _gemm(n: Node, a: Array, b: Array, c: Array | None = None) -> Array:
    product = (a.T if n.get("transA") else a) @ (b.T if n.get("transB") else b)
    alpha, beta = n.get("alpha", 1.0), n.get("beta", 1.0)
    product = product if alpha == 1 else product * alpha
    return product if c is None else product + (c if beta == 1 else beta * c)


def _conv(n: Node, x: Array, w: Array, bias: Array | None = None) -> Array:
    strides, dilations, pairs = windows(n, x.shape[2:], w.shape[2:])
    axes = _SPATIAL[len(pairs)]
    layout = (f"NC{axes}", f"OI{axes}", f"NC{axes}")
    y = lax.conv_general_dilated(
        x,
        w,
        strides,
        pairs,
        rhs_dilation=dilations,
        dimension_numbers=layout,
        feature_group_count=n.get("group", 1),
    )
    return y if bias is None else y + _channel(bias, y.ndim)


def _channel(x: Array, rank: int) -> Array:
    return x.reshape((-1,) + (1,) * (rank - 2))


def _pool(n: Node, x: Array, start: Any, function: Any) -> Array:
    kernel = n.get("kernel_shape")
    strides, dilations, pairs = windows(n, x.shape[2:], kernel)
    outer = [(0, 0), (0, 0)]
    return lax.reduce_window(
        x,
        np.asarray(start, x.dtype),
        function,
        (1, 1, *kernel),
        (1, 1, *strides),
        [*outer, *pairs],
        window_dilation=(1, 1, *dilations),
    )


def _average_pool(n: Node, x: Array) -> Array:
    if n.get("ceil_mode"):
        raise CannotRun("the table's AveragePool has no ceil mode")
    total = _pool(n, x, 0, lax.add)
    if n.get("count_include_pad", 0):
        return total / math.prod(n.get("kernel_shape"))
    return total / _pool(n, jnp.ones((1, 1, *x.shape[2:]), x.dtype), 0, lax.add)


def _normalized(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    centred = x - x.mean(axes, keepdims=True)
    return centred * lax.rsqrt((centred * centred).mean(axes, keepdims=True) + eps)


def _layer_norm(n: Node, x: Array, weight: Array, bias: Array | None = None) -> Array:
    axes = tuple(range(n.get("axis", -1) % x.ndim, x.ndim))
    y = _normalized(x, axes, n.get("epsilon", 1e-5)) * weight
    return y if bias is None else y + bias


def _rms_norm(n: Node, x: Array, weight: Array) -> Array:
    axes = tuple(range(n.get("axis", -1) % x.ndim, x.ndim))
    mean = (x * x).mean(axes, keepdims=True)
    return x * lax.rsqrt(mean + n.get("epsilon", 1e-5)) * weight


def _batch_norm(n: Node, x: Array, *statistics: Array) -> Array:
    scale, bias, mean, var = statistics
    factor = scale * lax.rsqrt(var + n.get("epsilon", 1e-5))
    return x * _channel(factor, x.ndim) + _channel(bias - mean * factor, x.ndim)


def _instance_norm(n: Node, x: Array, scale: Array, bias: Array) -> Array:
    y = _normalized(x, tuple(range(2, x.ndim)), n.get("epsilon", 1e-5))
    return y * _channel(scale, x.ndim) + _channel(bias, x.ndim)


def _group_norm(n: Node, x: Array, scale: Array, bias: Array) -> Array:
    if n.opset < 21:
        raise CannotRun("GroupNormalization of an opset below 21 scales groups, not channels")
    grouped = x.reshape(x.shape[0], n.get("num_groups"), -1)
    y = _normalized(grouped, (2,), n.get("epsilon", 1e-5)).reshape(x.shape)
    return y * _channel(scale, x.ndim) + _channel(bias, x.ndim)


def _lp_normalization(n: Node, x: Array) -> Array:
    order, axis = n.get("p", 2), n.get("axis", -1)
    return x / jnp.maximum(jnp.linalg.norm(x, order, axis, keepdims=True), 1e-12)


def _pad(
    n: Node,
    x: Array,
    pads: np.ndarray,
    value: np.ndarray | None = None,
    axes: np.ndarray | None = None,
) -> Array:
    if (mode := n.get("mode", "constant")) != "constant":
        raise CannotRun(f"the table's Pad has no mode {mode}")
    half, named = len(pads) // 2, range(x.ndim) if axes is None else axes.tolist()
    config = [(0, 0, 0)] * x.ndim
    for i, axis in enumerate(named):
        config[axis] = (int(pads[i]), int(pads[i + half]), 0)
    return lax.pad(x, np.asarray(0 if value is None else value.item(), x.dtype), config)


def _cumsum(n: Node, x: Array, axis: np.ndarray) -> Array:
    if n.get("exclusive") or n.get("reverse"):
        raise CannotRun("the table's CumSum is neither exclusive nor reverse")
    return jnp.cumsum(x, int(axis), dtype=x.dtype)


def _constant_of_shape(n: Node, shape: np.ndarray) -> Array:
    value = n.get("value", np.zeros(1, np.float32))
    return jnp.full(shape.tolist(), value.item(), value.dtype)


def _arg(function: Any) -> Row:
    return lambda n, x: function(x, n.get("axis", 0), keepdims=bool(n.get("keepdims", 1))).astype(
        jnp.int64
    )


def _topk(n: Node, x: Array, k: np.ndarray) -> tuple[Array, ...]:
    moved = jnp.moveaxis(x, n.get("axis", -1), -1)
    moved = moved if n.get("largest", 1) else -moved
    values, index = lax.top_k(moved, int(k.ravel()[0]))
    values = values if n.get("largest", 1) else -values
    return tuple(jnp.moveaxis(y, -1, n.get("axis", -1)) for y in (values, index.astype(jnp.int64)))


def _trilu(n: Node, x: Array, k: np.ndarray | None = None) -> Array:
    return (jnp.triu if n.get("upper", 1) else jnp.tril)(x, int(k) if k is not None else 0)


def _split(n: Node, x: Array, sizes: np.ndarray | None = None) -> tuple[Array, ...]:
    axis = n.get("axis", 0) % x.ndim
    return tuple(lax.split(x, split_sizes(n, x.shape[axis], sizes), axis))


OPS: dict[str, Row] = {
    "Abs": lambda n, x: jnp.abs(x),
    "And": lambda n, a, b: jnp.logical_and(a, b),
    "ArgMax": _arg(jnp.argmax),
    "ArgMin": _arg(jnp.argmin),
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "Ceil": lambda n, x: jnp.ceil(x),
    "Clip": _clip,
    "Concat": lambda n, *xs: jnp.concatenate(xs, n.get("axis")),
    "ConstantOfShape": _constant_of_shape,
    "Conv": _conv,
    "Cos": lambda n, x: jnp.cos(x),
    "CumSum": _cumsum,
    "Div": lambda n, a, b: lax.div(*jnp.broadcast_arrays(a, b)),
    "Einsum": lambda n, *xs: jnp.einsum(n.get("equation"), *xs),
    "Elu": lambda n, x: nn.elu(x, n.get("alpha", 1.0)),
    "Erf": lambda n, x: lax.erf(x),
    "Exp": lambda n, x: jnp.exp(x),
    "Expand": lambda n, x, s: jnp.broadcast_to(x, np.broadcast_shapes(x.shape, s.tolist())),
    "Floor": lambda n, x: jnp.floor(x),
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "Gelu": lambda n, x: nn.gelu(x, approximate=n.get("approximate", "none") == "tanh"),
    "Gemm": _gemm,
    "GlobalAveragePool": lambda n, x: x.mean(tuple(range(2, x.ndim)), keepdims=True),
    "GlobalMaxPool": lambda n, x: x.max(tuple(range(2, x.ndim)), keepdims=True),
    "GroupNormalization": _group_norm,
    "HardSigmoid": lambda n, x: jnp.clip(n.get("alpha", 0.2) * x + n.get("beta", 0.5), 0, 1),
    "HardSwish": lambda n, x: nn.hard_swish(x),
    "InstanceNormalization": _instance_norm,
    "IsNaN": lambda n, x: jnp.isnan(x),
    "LayerNormalization": _layer_norm,
    "LeakyRelu": lambda n, x: nn.leaky_relu(x, n.get("alpha", 0.01)),
    "Log": lambda n, x: jnp.log(x),
    "LogSoftmax": lambda n, x: nn.log_softmax(x, last_axis_softmax(n, x.ndim)),
    "LpNormalization": _lp_normalization,
    "MatMul": lambda n, a, b: jnp.matmul(a, b),
    "Max": _fold(jnp.maximum),
    "MaxPool": lambda n, x: _pool(n, x, -np.inf, lax.max),
    "Min": _fold(jnp.minimum),
    "Mish": lambda n, x: nn.mish(x),
    "Mod": lambda n, a, b: jnp.fmod(a, b) if n.get("fmod") else jnp.mod(a, b),
    "Or": lambda n, a, b: jnp.logical_or(a, b),
    "PRelu": lambda n, x, slope: jnp.where(x < 0, x * slope, x),
    "Pad": _pad,
    "Pow": lambda n, a, b: jnp.power(a, b),
    "RMSNormalization": _rms_norm,
    "Range": lambda n, low, high, step: jnp.asarray(np.arange(low, high, step, low.dtype)),
    "ReduceL1": _reduction(lambda x, axes, keep: jnp.sum(jnp.abs(x), axes, keepdims=keep)),
    "ReduceL2": _reduction(lambda x, axes, keep: jnp.sqrt((x * x).sum(axes, keepdims=keep))),
    "ReduceLogSumExp": _reduction(lambda x, a, keep: nn.logsumexp(x, a, keepdims=keep)),
    "ReduceMax": _reduction(lambda x, axes, keep: jnp.max(x, axes, keepdims=keep)),
    "ReduceMean": _reduction(lambda x, axes, keep: jnp.mean(x, axes, keepdims=keep)),
    "ReduceMin": _reduction(lambda x, axes, keep: jnp.min(x, axes, keepdims=keep)),
    "ReduceProd": _reduction(lambda x, a, keep: jnp.prod(x, a, dtype=x.dtype, keepdims=keep)),
    "ReduceSum": _reduction(lambda x, a, keep: jnp.sum(x, a, dtype=x.dtype, keepdims=keep)),
    "ReduceSumSquare": _reduction(lambda x, axes, keep: jnp.sum(x * x, axes, keepdims=keep)),
    "Relu": lambda n, x: nn.relu(x),
    "Round": lambda n, x: jnp.round(x),
    "Sigmoid": lambda n, x: nn.sigmoid(x),
    "Sign": lambda n, x: jnp.sign(x),
    "Sin": lambda n, x: jnp.sin(x),
    "Slice": _slice,
    "Softmax": lambda n, x: nn.softmax(x, last_axis_softmax(n, x.ndim)),
    "Softplus": lambda n, x: nn.softplus(x),
    "Split": _split,
    "Sqrt": lambda n, x: jnp.sqrt(x),
    "Sum": _fold(jnp.add),
    "Tanh": lambda n, x: jnp.tanh(x),
    "Tile": lambda n, x, repeats: jnp.tile(x, repeats.tolist()),
    "TopK": _topk,
    "Transpose": lambda n, x: jnp.transpose(x, n.get("perm")),
    "Trilu": _trilu,
    "Where": lambda n, c, a, b: jnp.where(c, a, b),
    "Xor": lambda n, a, b: jnp.logical_xor(a, b),
}
