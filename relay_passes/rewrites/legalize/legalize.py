"""How Relax ops become TensorIR where TVM's own way is wrong or narrow.

`topi.layer_norm` and its kin take the variance as E[x^2] - E[x]^2, which cancels when the mean
is large, and refuse float64 and bfloat16; `isnan` refuses bfloat16 and is never vectorised.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from tvm import relax, te, tirx, topi
from tvm.ir import Constant, Op

from tir_schedules.vector_math import opaque_zero

from ..convolution import TRANSPOSED
from ..weights import static_shape
from .adaptive_pools import adaptive_average
from .division import quotient, remainder
from .empty import concat_of_some, einsum_of_nothing
from .gathered_elements import of_scatter_elements
from .gathered_scatters import gathered
from .indexing import index_put, index_tensor, scatter_elements, scatter_nd
from .places import place_of_extreme
from .scatters import of_index_put, of_scatter_nd
from .transposed import transposed

Legalizer = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]
_HALF = ("float16", "bfloat16")
_ADAPTIVE = tuple(f"relax.nn.adaptive_avg_pool{rank}d" for rank in (1, 2, 3))


def _layer_norm(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    attrs = call.attrs

    def compute(x: te.Tensor, gamma: te.Tensor, beta: te.Tensor) -> te.Tensor:
        axes = [int(a) % len(x.shape) for a in attrs.axes]
        scaled = _normalized(x, axes, float(attrs.epsilon))
        if attrs.scale:
            scaled = scaled * _along(gamma, axes, len(x.shape))
        if attrs.center:
            scaled = scaled + _along(beta, axes, len(x.shape))
        return topi.cast(scaled, x.dtype)

    return builder.call_te(compute, *call.args, primfunc_name_hint="layer_norm")


def _rms_norm(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    attrs = call.attrs

    def compute(x: te.Tensor, weight: te.Tensor) -> te.Tensor:
        axes = [int(a) % len(x.shape) for a in attrs.axes]
        wide = _wide(x)
        scale = _inverse_root(_mean(wide * wide, axes), float(attrs.epsilon))
        return topi.cast(wide * scale * _along(weight, axes, len(x.shape)), x.dtype)

    return builder.call_te(compute, *call.args, primfunc_name_hint="rms_norm")


def _group_norm(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    attrs = call.attrs

    def compute(x: te.Tensor, gamma: te.Tensor, beta: te.Tensor) -> te.Tensor:
        shape, rank = list(x.shape), len(x.shape)
        channel, groups = int(attrs.channel_axis) % rank, int(attrs.num_groups)
        size = shape[channel] // groups
        split = [*shape[:channel], groups, size, *shape[channel + 1 :]]
        axes = sorted({channel + 1, *(_shifted(int(a) % rank, channel) for a in attrs.axes)})
        value = topi.reshape(_normalized(topi.reshape(x, split), axes, float(attrs.epsilon)), shape)
        if attrs.scale:
            value = value * _along(gamma, [channel], rank)
        if attrs.center:
            value = value + _along(beta, [channel], rank)
        return topi.cast(value, x.dtype)

    return builder.call_te(compute, *call.args, primfunc_name_hint="group_norm")


def _instance_norm(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    attrs = call.attrs

    def compute(x: te.Tensor, gamma: te.Tensor, beta: te.Tensor) -> te.Tensor:
        rank = len(x.shape)
        channel = int(attrs.channel_axis) % rank
        value = _normalized(x, [int(a) % rank for a in attrs.axes], float(attrs.epsilon))
        if attrs.scale:
            value = value * _along(gamma, [channel], rank)
        if attrs.center:
            value = value + _along(beta, [channel], rank)
        return topi.cast(value, x.dtype)

    return builder.call_te(compute, *call.args, primfunc_name_hint="instance_norm")


def _batch_norm(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Normalise halves by given moments in float32, of which TVM's makes a float32 result."""
    attrs, (data, _, _, mean, variance) = call.attrs, call.args
    if attrs.training or str(data.ty.dtype) not in _HALF:
        return _of_tvm("relax.nn.batch_norm")(builder, call)

    def compute(x: te.Tensor, *given: te.Tensor) -> te.Tensor:
        gamma, beta, mean, variance = (
            _along(each, [int(attrs.axis) % len(x.shape)], len(x.shape)) for each in given
        )
        value = (_wide(x) - mean) * _inverse_root(variance, float(attrs.epsilon))
        if attrs.scale:
            value = value * gamma
        if attrs.center:
            value = value + beta
        return topi.cast(value, x.dtype)

    made = builder.call_te(compute, *call.args, primfunc_name_hint="batch_norm")
    return relax.Tuple([builder.emit(made), mean, variance])


def _mean_of(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    def compute(x: te.Tensor) -> te.Tensor:
        return _scaled_mean(x, _axes(call, x), call.attrs.keepdims)

    return builder.call_te(compute, *call.args, primfunc_name_hint="mean")


def _variance_of(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    def compute(x: te.Tensor) -> te.Tensor:
        axes = _axes(call, x)
        centred = topi.subtract(x, _scaled_mean(x, axes, True))
        return _scaled_mean(topi.multiply(centred, centred), axes, call.attrs.keepdims)

    return builder.call_te(compute, *call.args, primfunc_name_hint="variance")


def _scaled_mean(x: te.Tensor, axes: list[int], keepdims: bool) -> te.Tensor:
    """Return the mean; halves are scaled down by a power of two first, exactly.

    Neither the sum of many halves nor their count need fit a float16, whose largest is 65504.
    """
    count = math.prod(int(x.shape[axis]) for axis in axes)
    if str(x.dtype) not in _HALF or not count:
        return topi.divide(topi.sum(x, axes, keepdims), tirx.const(count, x.dtype))
    power = 1 << (count - 1).bit_length()
    total = topi.sum(topi.multiply(x, tirx.FloatImm(x.dtype, 1.0 / power)), axes, keepdims)
    return topi.multiply(total, tirx.FloatImm(x.dtype, power / count))


def _axes(call: relax.Call, x: te.Tensor) -> list[int]:
    given = call.attrs.axis
    rank = len(x.shape)
    return list(range(rank)) if given is None else sorted({int(a) % rank for a in given})


def _isnan(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    def compute(x: te.Tensor) -> te.Tensor:
        if not str(x.dtype).startswith(("float", "bfloat")):
            return topi.full(x.shape, "bool", False)
        wide = _wide(x)
        bits, infinity = ("int32", 0x7F8 << 20)
        if str(wide.dtype) == "float64":
            bits, infinity = ("int64", 0x7FF0 << 48)
        mask = tirx.IntImm(bits, (1 << (63 if bits == "int64" else 31)) - 1)
        # On the bits: TVM simplifies float comparisons as if there were no NaN.
        return te.compute(
            x.shape,
            lambda *i: (tirx.reinterpret(bits, wide(*i)) & mask) > tirx.IntImm(bits, infinity),
        )

    return builder.call_te(compute, *call.args, primfunc_name_hint="isnan")


def _power(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    def compute(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        return topi.cast(topi.power(_wide(x), _wide(y)), x.dtype)

    return builder.call_te(compute, *call.args, primfunc_name_hint="power")


def _keeping_zero(function: Callable[..., te.Tensor], op: str, sides: tuple[int, ...]) -> Legalizer:
    """Keep a literal zero on one of `sides`: TVM folds x * 0 and 0 / x to 0, NaN or not.

    Of x / 0 it says that it cannot be.
    """

    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        side = next((s for s in sides if _is_zero(call.args[s], call.args[1 - s])), None)
        if side is None:
            return Op.get(f"relax.{op}").get_attr("FLegalize")(builder, call)
        constant = call.args[side].value.numpy()
        zero = opaque_zero(bool(np.signbit(constant).all()), str(constant.dtype))

        def compute(x: te.Tensor) -> te.Tensor:
            return function(zero, x) if side == 0 else function(x, zero)

        return builder.call_te(compute, call.args[1 - side], primfunc_name_hint=op)

    return legalize


def _of_tvm(op: str) -> Legalizer:
    return Op.get(op).get_attr("FLegalize")


def _where_static(legalize: Legalizer, otherwise: Legalizer) -> Legalizer:
    """Legalise calls in which each extent is a number, and the others `otherwise`."""

    def chosen(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        tensors = [tensor for value in (call, *call.args) for tensor in _tensors(value)]
        static = all(static_shape(tensor) is not None for tensor in tensors)
        return (legalize if static else otherwise)(builder, call)

    return chosen


def _tensors(value: relax.Expr) -> list[relax.Expr]:
    """Return a tensor as itself, a tuple as its parts."""
    if not isinstance(value.ty, relax.TupleType):
        return [value]
    return [relax.TupleGetItem(value, n) for n in range(len(value.ty.fields))]


def _is_zero(arg: relax.Expr, other: relax.Expr) -> bool:
    """Return whether `arg` is one floating-point zero that broadcasts to the other's shape."""
    if not isinstance(arg, Constant) or not str(arg.ty.dtype).startswith(("float", "bfloat")):
        return False
    value = arg.value.numpy()
    return value.size == 1 and value.ndim <= other.ty.ndim and not value.any()


def _take(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Clip indices where TVM's "fast" mode would read outside the tensor (and warns of it)."""
    mode = "clip" if call.attrs.mode == "fast" else call.attrs.mode
    return builder.call_te(topi.take, call.args[0], call.args[1], call.attrs.axis, mode=mode)


def _normalized(x: te.Tensor, axes: list[int], epsilon: float) -> te.Tensor:
    """Return (x - mean) / sqrt(variance + epsilon) in two passes."""
    wide = _wide(x)
    centred = wide - _mean(wide, axes)
    return centred * _inverse_root(_mean(centred * centred, axes), epsilon)


def _mean(x: te.Tensor, axes: list[int]) -> te.Tensor:
    count = 1
    for axis in axes:
        count = count * x.shape[axis]
    total = topi.sum(x, axis=axes, keepdims=True)
    return total / tirx.Cast(x.dtype, tirx.convert(count))


def _inverse_root(x: te.Tensor, epsilon: float) -> te.Tensor:
    one = tirx.FloatImm(x.dtype, 1.0)
    return te.compute(x.shape, lambda *i: one / tirx.sqrt(x(*i) + tirx.FloatImm(x.dtype, epsilon)))


def _wide(x: te.Tensor) -> te.Tensor:
    return topi.cast(x, "float32") if str(x.dtype) in _HALF else x


def _along(weight: te.Tensor, axes: list[int], rank: int) -> te.Tensor:
    """Return `weight` reshaped to broadcast over a tensor of that rank."""
    shape = [1] * rank
    for axis, extent in zip(sorted(axes), weight.shape, strict=True):
        shape[axis] = extent
    return topi.reshape(_wide(weight), shape)


def _shifted(axis: int, channel: int) -> int:
    return axis + 1 if axis > channel else axis


LEGALIZATIONS: dict[str, Legalizer] = {
    "relax.nn.layer_norm": _layer_norm,
    "relax.nn.rms_norm": _rms_norm,
    "relax.nn.group_norm": _group_norm,
    "relax.nn.instance_norm": _instance_norm,
    "relax.nn.batch_norm": _batch_norm,
    "relax.mean": _mean_of,
    "relax.variance": _variance_of,
    "relax.isnan": _isnan,
    "relax.multiply": _keeping_zero(topi.multiply, "multiply", (0, 1)),
    "relax.divide": quotient(tirx.truncdiv, _keeping_zero(topi.divide, "divide", (0, 1))),
    "relax.floor_divide": quotient(tirx.floordiv, _of_tvm("relax.floor_divide")),
    "relax.mod": remainder(tirx.truncmod, _of_tvm("relax.mod")),
    "relax.floor_mod": remainder(tirx.floormod, _of_tvm("relax.floor_mod")),
    "relax.power": _power,
    "relax.take": _take,
    "relax.concat": concat_of_some(_of_tvm("relax.concat")),
    "relax.einsum": einsum_of_nothing(_of_tvm("relax.einsum")),
    "relax.argmax": place_of_extreme(largest=True),
    "relax.argmin": place_of_extreme(largest=False),
    "relax.index_tensor": _where_static(index_tensor, _of_tvm("relax.index_tensor")),
    "relax.index_put": _where_static(gathered(of_index_put, index_put), _of_tvm("relax.index_put")),
    "relax.scatter_elements": _where_static(
        gathered(of_scatter_elements, scatter_elements), _of_tvm("relax.scatter_elements")
    ),
    "relax.scatter_nd": _where_static(
        gathered(of_scatter_nd, scatter_nd), _of_tvm("relax.scatter_nd")
    ),
    **{n: _where_static(adaptive_average(_of_tvm(n)), _of_tvm(n)) for n in _ADAPTIVE},
    **{n: _where_static(transposed(_of_tvm(n)), _of_tvm(n)) for n in TRANSPOSED},
}
