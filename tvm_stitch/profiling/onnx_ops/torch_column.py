"""The torch column: ONNX ops as torch functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from ..peer import CannotRun
from .graph import Node, Row
from .shapes import last_axis_softmax, slices, split_sizes, windows

Tensor = torch.Tensor


def constant(array: np.ndarray) -> Any:
    """Return a scalar as Python has it: torch keeps the other operand's dtype, and x**2 is x*x."""
    return array.item()


def tensor(array: np.ndarray) -> Tensor:
    """Return an array as a tensor over the same memory."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def dtype_of(onnx_type: int) -> torch.dtype:
    """Return the torch dtype of an ONNX TensorProto.DataType.

    Raises: CannotRun for a type torch has no arithmetic for.
    """
    names = {1: "float32", 2: "uint8", 3: "int8", 5: "int16", 6: "int32", 7: "int64", 9: "bool"}
    names |= {10: "float16", 11: "float64", 16: "bfloat16"}
    if onnx_type not in names:
        raise CannotRun(f"no torch dtype for ONNX type {onnx_type}")
    return getattr(torch, names[onnx_type])


def _like(value: Any, other: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value
    return torch.full((), value, dtype=other.dtype)


def _fold(function: Any) -> Row:
    def row(n: Node, first: Any, *rest: Any) -> Any:
        tensors = [each for each in (first, *rest) if isinstance(each, Tensor)]
        result = first
        for each in rest:
            result = function(_like(result, tensors[0]), _like(each, tensors[0]))
        return result

    return row


def _reduction(function: Any) -> Row:
    """Wrap `function(x, axes, keepdims)` as a Reduce op."""

    def row(n: Node, x: Tensor, axes: np.ndarray | None = None) -> Tensor:
        named = n.axes(axes)
        if not named and n.get("noop_with_empty_axes"):
            return x
        every = list(range(x.ndim))
        return function(x, list(named) if named else every, bool(n.get("keepdims", 1)))

    return row


def _prod(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    for axis in sorted((axis % x.ndim for axis in axes), reverse=True):
        x = torch.prod(x, axis, keepdim=keep)
    return x


def _cast(n: Node, x: Tensor) -> Tensor:
    return x.to(dtype_of(n.get("to")))


def _clip(n: Node, x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    low, high = n.get("min", low), n.get("max", high)
    return x if low is None and high is None else torch.clamp(x, low, high)


def _slice(n: Node, x: Tensor, *operands: np.ndarray) -> Tensor:
    for axis, kept in enumerate(slices(x.shape, *operands)):
        if kept.step < 0:
            x = x.index_select(axis, torch.tensor(list(kept)))
        elif len(kept) != x.shape[axis]:
            stop = kept[-1] + 1 if len(kept) else kept.start
            x = torch.narrow(x, axis, kept.start, stop - kept.start)
            x = x[(slice(None),) * axis + (slice(None, None, kept.step),)] if kept.step > 1 else x
    return x


def _gather(n: Node, x: Tensor, index: Any) -> Tensor:
    axis = n.get("axis", 0) % x.ndim
    if not isinstance(index, Tensor):
        return x.select(axis, index)
    index = torch.where(index < 0, index + x.shape[axis], index)
    if axis == 0 and x.ndim == 2:
        return F.embedding(index.long(), x)
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    return x.index_select(axis, index.reshape(-1)).reshape(shape)


def _gather_elements(n: Node, x: Tensor, index: Tensor) -> Tensor:
    axis = n.get("axis", 0)
    return torch.gather(x, axis, torch.where(index < 0, index + x.shape[axis], index).long())


def _gemm(n: Node, a: Tensor, b: Tensor, c: Any = None) -> Tensor:
    a = a.t() if n.get("transA") else a
    b = b.t() if n.get("transB") else b
    alpha, beta = n.get("alpha", 1.0), n.get("beta", 1.0)
    if isinstance(c, Tensor):
        return torch.addmm(c, a, b, alpha=alpha, beta=beta)
    product = a @ b if alpha == 1 else (a @ b) * alpha
    return product if c is None else product + beta * c


def _padded(x: Tensor, pairs: list[tuple[int, int]], value: float = 0.0) -> Tensor:
    flat = [side for pair in reversed(pairs) for side in pair]
    return F.pad(x, flat, value=value) if any(flat) else x


def _symmetric(pairs: list[tuple[int, int]]) -> list[int] | None:
    return [low for low, _ in pairs] if all(low == high for low, high in pairs) else None


def _conv(n: Node, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    strides, dilations, pairs = windows(n, x.shape[2:], w.shape[2:])
    pads = _symmetric(pairs)
    if pads is None:
        x, pads = _padded(x, pairs), [0] * len(pairs)
    function = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(pairs)]
    return function(x, w, bias, strides, pads, dilations, n.get("group", 1))


def _max_pool(n: Node, x: Tensor) -> Tensor:
    kernel = n.get("kernel_shape")
    strides, dilations, pairs = windows(n, x.shape[2:], kernel)
    function = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[len(kernel)]
    pads = _symmetric(pairs)
    if pads is None or any(2 * pad > k for pad, k in zip(pads, kernel, strict=True)):
        x, pads = _padded(x, pairs, -math.inf), [0] * len(pairs)
    return function(x, kernel, strides, pads, dilations)


def _average_pool(n: Node, x: Tensor) -> Tensor:
    kernel = n.get("kernel_shape")
    strides, dilations, pairs = windows(n, x.shape[2:], kernel)
    pads = _symmetric(pairs)
    if n.get("ceil_mode") or pads is None or any(d != 1 for d in dilations):
        raise CannotRun("the table's AveragePool takes symmetric padding and no ceil mode")
    function = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[len(kernel)]
    return function(x, kernel, strides, pads, False, bool(n.get("count_include_pad", 0)))


def _layer_norm(n: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    shape = x.shape[n.get("axis", -1) % x.ndim :]
    weight, bias = (t if t is None else t.expand(shape) for t in (weight, bias))
    return F.layer_norm(x, shape, weight, bias, n.get("epsilon", 1e-5))


def _rms_norm(n: Node, x: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[n.get("axis", -1) % x.ndim :], weight, n.get("epsilon", 1e-5))


def _batch_norm(n: Node, x: Tensor, *statistics: Tensor) -> Tensor:
    scale, bias, mean, var = statistics
    return F.batch_norm(x, mean, var, scale, bias, False, 0.0, n.get("epsilon", 1e-5))


def _group_norm(n: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    if n.opset < 21:
        raise CannotRun("GroupNormalization of an opset below 21 scales groups, not channels")
    return F.group_norm(x, n.get("num_groups"), scale, bias, n.get("epsilon", 1e-5))


def _pad(
    n: Node,
    x: Tensor,
    pads: np.ndarray,
    value: np.ndarray | None = None,
    axes: np.ndarray | None = None,
) -> Tensor:
    if (mode := n.get("mode", "constant")) != "constant":
        raise CannotRun(f"the table's Pad has no mode {mode}")
    half, named = len(pads) // 2, range(x.ndim) if axes is None else axes.tolist()
    pairs = [(0, 0)] * x.ndim
    for i, axis in enumerate(named):
        pairs[axis] = (int(pads[i]), int(pads[i + half]))
    return _padded(x, pairs, 0.0 if value is None else value.item())


def _divide(n: Node, a: Any, b: Any) -> Tensor:
    known = a if isinstance(a, Tensor) else b
    if known.dtype.is_floating_point:
        return a / b
    return torch.div(_like(a, known), b, rounding_mode="trunc")


def _cumsum(n: Node, x: Tensor, axis: np.ndarray) -> Tensor:
    if n.get("exclusive") or n.get("reverse"):
        raise CannotRun("the table's CumSum is neither exclusive nor reverse")
    return torch.cumsum(x, int(axis), dtype=x.dtype)


def _constant_of_shape(n: Node, shape: np.ndarray) -> Tensor:
    value = n.get("value", np.zeros(1, np.float32))
    return tensor(np.full(shape.tolist(), value.item(), value.dtype))


def _arg(function: Any) -> Row:
    return lambda n, x: function(x, n.get("axis", 0), keepdim=bool(n.get("keepdims", 1)))


def _transpose(n: Node, x: Tensor) -> Tensor:
    """Swap the last two axes in a step of its own, as PyTorch code writes an attention's keys.

    Inductor's attention patterns match any permute there and fail on (0, 2, 3, 1) as one.
    """
    perm = n.get("perm") or list(range(x.ndim))[::-1]
    if len(perm) > 2 and perm[-1] < perm[-2]:
        return x.permute([*perm[:-2], perm[-1], perm[-2]]).transpose(-2, -1)
    return x.permute(perm)


def _trilu(n: Node, x: Tensor, k: np.ndarray | None = None) -> Tensor:
    return (torch.triu if n.get("upper", 1) else torch.tril)(x, int(k) if k is not None else 0)


def _topk(n: Node, x: Tensor, k: np.ndarray) -> tuple[Tensor, Tensor]:
    largest = bool(n.get("largest", 1))
    return tuple(torch.topk(x, int(k.ravel()[0]), n.get("axis", -1), largest))


def _instance_norm(n: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return F.instance_norm(x, weight=scale, bias=bias, eps=n.get("epsilon", 1e-5))


OPS: dict[str, Row] = {
    "Abs": lambda n, x: torch.abs(x),
    "And": lambda n, a, b: torch.logical_and(a, b),
    "ArgMax": _arg(torch.argmax),
    "ArgMin": _arg(torch.argmin),
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "Ceil": lambda n, x: torch.ceil(x),
    "Clip": _clip,
    "Concat": lambda n, *xs: torch.cat(xs, n.get("axis")),
    "ConstantOfShape": _constant_of_shape,
    "Conv": _conv,
    "Cos": lambda n, x: torch.cos(x),
    "CumSum": _cumsum,
    "Div": _divide,
    "Einsum": lambda n, *xs: torch.einsum(n.get("equation"), *xs),
    "Elu": lambda n, x: F.elu(x, n.get("alpha", 1.0)),
    "Erf": lambda n, x: torch.erf(x),
    "Exp": lambda n, x: torch.exp(x),
    "Expand": lambda n, x, s: x.expand(np.broadcast_shapes(tuple(x.shape), tuple(s.tolist()))),
    "Floor": lambda n, x: torch.floor(x),
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "Gelu": lambda n, x: F.gelu(x, approximate=n.get("approximate", "none")),
    "Gemm": _gemm,
    "GlobalAveragePool": lambda n, x: x.mean(list(range(2, x.ndim)), keepdim=True),
    "GlobalMaxPool": lambda n, x: x.amax(list(range(2, x.ndim)), keepdim=True),
    "GroupNormalization": _group_norm,
    "HardSigmoid": lambda n, x: (n.get("alpha", 0.2) * x + n.get("beta", 0.5)).clamp(0, 1),
    "HardSwish": lambda n, x: F.hardswish(x),
    "InstanceNormalization": _instance_norm,
    "IsNaN": lambda n, x: torch.isnan(x),
    "LayerNormalization": _layer_norm,
    "LeakyRelu": lambda n, x: F.leaky_relu(x, n.get("alpha", 0.01)),
    "Log": lambda n, x: torch.log(x),
    "LogSoftmax": lambda n, x: torch.log_softmax(x, last_axis_softmax(n, x.ndim)),
    "LpNormalization": lambda n, x: F.normalize(x, n.get("p", 2), n.get("axis", -1)),
    "MatMul": lambda n, a, b: torch.matmul(a, b),
    "Max": _fold(torch.maximum),
    "MaxPool": _max_pool,
    "Min": _fold(torch.minimum),
    "Mish": lambda n, x: F.mish(x),
    "Mod": lambda n, a, b: torch.fmod(a, b) if n.get("fmod") else torch.remainder(a, b),
    "Or": lambda n, a, b: torch.logical_or(a, b),
    "PRelu": lambda n, x, slope: torch.where(x < 0, x * slope, x),
    "Pad": _pad,
    "Pow": lambda n, a, b: torch.pow(a, b),
    "RMSNormalization": _rms_norm,
    "Range": lambda n, low, high, step: tensor(np.arange(low, high, step, low.dtype)),
    "ReduceL1": _reduction(lambda x, axes, keep: torch.sum(torch.abs(x), axes, keep)),
    "ReduceL2": _reduction(lambda x, axes, keep: torch.linalg.vector_norm(x, 2, axes, keep)),
    "ReduceLogSumExp": _reduction(torch.logsumexp),
    "ReduceMax": _reduction(torch.amax),
    "ReduceMean": _reduction(torch.mean),
    "ReduceMin": _reduction(torch.amin),
    "ReduceProd": _reduction(_prod),
    "ReduceSum": _reduction(lambda x, axes, keep: torch.sum(x, axes, keep, dtype=x.dtype)),
    "ReduceSumSquare": _reduction(lambda x, axes, keep: torch.sum(x * x, axes, keep)),
    "Relu": lambda n, x: torch.relu(x),
    "Round": lambda n, x: torch.round(x),
    "Sigmoid": lambda n, x: torch.sigmoid(x),
    "Sign": lambda n, x: torch.sign(x),
    "Sin": lambda n, x: torch.sin(x),
    "Slice": _slice,
    "Softmax": lambda n, x: torch.softmax(x, last_axis_softmax(n, x.ndim)),
    "Softplus": lambda n, x: F.softplus(x, threshold=80),
    "Split": lambda n, x, s=None: torch.split(
        x, split_sizes(n, x.shape[n.get("axis", 0)], s), n.get("axis", 0)
    ),
    "Sqrt": lambda n, x: torch.sqrt(x),
    "Sum": _fold(torch.add),
    "Tanh": lambda n, x: torch.tanh(x),
    "Tile": lambda n, x, repeats: x.repeat(repeats.tolist()),
    "TopK": _topk,
    "Transpose": _transpose,
    "Trilu": _trilu,
    "Where": lambda n, c, a, b: torch.where(c, a, b),
    "Xor": lambda n, a, b: torch.logical_xor(a, b),
}
