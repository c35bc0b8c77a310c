"""PyTorch's arithmetic as Relax, in the types that PyTorch computes in.

TVM's converters round a float scalar to the integers of the tensor beside it (`1.0 - mask`), divide
integers as integers, count bools in bools and clip integers at infinities.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import fx
from tvm import relax
from tvm.relax.frontend.torch.base_fx_graph_translator import BaseFXGraphImporter

Scalar = bool | int | float
OF_BOOLS = {
    relax.op.multiply: relax.op.logical_and,
    relax.op.minimum: relax.op.logical_and,
    relax.op.add: relax.op.logical_or,
    relax.op.maximum: relax.op.logical_or,
}
_ORDERS = (relax.op.less, relax.op.less_equal, relax.op.greater, relax.op.greater_equal)


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def unary(node: fx.Node, op: Callable, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: exp(i) -> exp(astype(i, "float32"))   # integers i"""
    data = importer.env[node.args[0]]
    wanted = node.meta["val"].dtype
    if wanted.is_floating_point:
        data = _as(importer, data, name_of(wanted))
    return importer.block_builder.emit(op(data))


def binary(
    node: fx.Node, op: Callable, importer: BaseFXGraphImporter, otherwise: Callable
) -> relax.Expr:
    """rewrite: f(x, y) -> f(astype(x, t), astype(y, t))   # t what PyTorch promotes both to

    Sizes that are not tensors go the way of `otherwise`.
    """
    known = [_known(arg) for arg in node.args[:2]]
    if not any(isinstance(value, torch.Tensor) for value in known) or None in map(_kind, known):
        return otherwise(node)
    left, right = _promoted(node, known, importer)
    if node.kwargs.get("alpha", 1) != 1:
        scale = relax.const(node.kwargs["alpha"], str(right.ty.dtype))
        right = importer.block_builder.emit(relax.op.multiply(right, scale))
    if str(left.ty.dtype) == "bool":
        if op in _ORDERS:  # TVM compares floats and integers
            left, right = (_as(importer, each, "int8") for each in (left, right))
        op = OF_BOOLS.get(op, op)
    return importer.block_builder.emit(op(left, right))


def divide(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: div(x, y, rounding_mode="trunc") -> trunc(divide(x, y))"""
    emit = importer.block_builder.emit
    left, right = _promoted(node, [_known(arg) for arg in node.args[:2]], importer)
    mode = node.args[2] if len(node.args) > 2 else node.kwargs.get("rounding_mode")
    if mode == "floor":
        return emit(relax.op.floor_divide(left, right))
    quotient = emit(relax.op.divide(left, right))
    if mode is None or not node.meta["val"].dtype.is_floating_point:
        return quotient  # integers are divided towards zero as they are
    return emit(relax.op.trunc(quotient))


def clamp(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: x.clamp(low, high) -> minimum(maximum(x, low), high)   # integers, or bounds"""
    bounds = [_argument(node, place, name) for place, name in ((1, "min"), (2, "max"))]
    numbers = not any(isinstance(bound, fx.Node) for bound in bounds)
    if numbers and _is_float(importer.env[node.args[0]]):
        return importer._clamp(node)
    return _clamped(node, importer, *bounds)


def clamp_min(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: i.clamp_min(low) -> maximum(i, low)   # integers i"""
    if not isinstance(node.args[1], fx.Node) and _is_float(importer.env[node.args[0]]):
        return importer._clamp_min(node)
    return _clamped(node, importer, node.args[1], None)


def clamp_max(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: x.clamp_max(high) -> minimum(x, high)   # TVM's takes the second argument for it"""
    return _clamped(node, importer, None, node.args[1])


def cumulate(
    node: fx.Node, importer: BaseFXGraphImporter, op: Callable = relax.op.cumsum
) -> relax.Var:
    """rewrite: i.cumsum(axis) -> cumsum(i, axis, dtype="int64")   # bools or integers i"""
    data, axis = importer.env[node.args[0]], node.args[1]
    return importer.block_builder.emit(op(data, axis, name_of(node.meta["val"].dtype)))


def cumulate_product(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: i.cumprod(axis) -> cumprod(i, axis, dtype="int64")   # bools or integers i"""
    return cumulate(node, importer, relax.op.cumprod)


def amax(node: fx.Node, importer: BaseFXGraphImporter, op: Callable = relax.op.max) -> relax.Var:
    """rewrite: x.amax(axes, keepdim) -> max(x, axes, keepdim)   # no axes: all"""
    axes, keeps = _argument(node, 1, "dim"), bool(_argument(node, 2, "keepdim"))
    return importer.block_builder.emit(op(importer.env[node.args[0]], axes or None, keeps))


def amin(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: x.amin(axes, keepdim) -> min(x, axes, keepdim)   # no axes: all"""
    return amax(node, importer, relax.op.min)


def arange(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Expr:
    """rewrite: arange(9, 0, -2) -> const([9, 7, 5, 3, 1])   # TVM's has one element too many"""
    step = node.args[2] if len(node.args) > 2 else 1
    if not all(isinstance(arg, int | float) for arg in node.args) or step > 0:
        return importer._arange(node)
    dtype = node.meta["val"].dtype
    return relax.const(torch.arange(*node.args, dtype=dtype).numpy(), name_of(dtype))


ARITHMETIC = {
    "div.Tensor_mode": divide,
    "div.Scalar_mode": divide,
    "clamp.default": clamp,
    "clamp.Tensor": clamp,
    "clamp_min.default": clamp_min,
    "clamp_min.Tensor": clamp_min,
    "clamp_max.default": clamp_max,
    "clamp_max.Tensor": clamp_max,
    "cumsum.default": cumulate,
    "cumprod.default": cumulate_product,
    "amax.default": amax,
    "amin.default": amin,
    "arange.start_step": arange,
}


def _clamped(node: fx.Node, importer: BaseFXGraphImporter, low: object, high: object) -> relax.Var:
    emit = importer.block_builder.emit
    wanted = name_of(node.meta["val"].dtype)
    out = _as(importer, importer.env[node.args[0]], wanted)
    for bound, op in ((low, relax.op.maximum), (high, relax.op.minimum)):
        if bound is not None:
            chosen = OF_BOOLS[op] if wanted == "bool" else op
            out = emit(chosen(out, _operand(importer, bound, wanted)))
    return out


def _promoted(
    node: fx.Node, known: list[torch.Tensor | Scalar], importer: BaseFXGraphImporter
) -> list[relax.Expr]:
    """Return both operands of a node in the type that PyTorch computes it in."""
    made = node.meta["val"].dtype
    wanted = name_of(made if made.is_floating_point else torch.result_type(*known))
    return [_operand(importer, arg, wanted) for arg in node.args[:2]]


def _operand(importer: BaseFXGraphImporter, arg: object, wanted: str) -> relax.Expr:
    if isinstance(arg, fx.Node):
        return _as(importer, importer.env[arg], wanted)
    return relax.const(arg, wanted)


def _as(importer: BaseFXGraphImporter, value: relax.Expr, wanted: str) -> relax.Expr:
    if str(value.ty.dtype) == wanted:
        return value
    return importer.block_builder.emit(relax.op.astype(value, wanted))


def _is_float(value: relax.Expr) -> bool:
    return "float" in str(value.ty.dtype)


def _argument(node: fx.Node, place: int, name: str) -> object:
    return node.args[place] if len(node.args) > place else node.kwargs.get(name)


def _known(arg: object) -> object:
    return arg.meta.get("val") if isinstance(arg, fx.Node) else arg


def _kind(value: object) -> type | None:
    """Return the kind of an operand that has a type of PyTorch's, None for what is a size."""
    return next((kind for kind in (torch.Tensor, Scalar) if isinstance(value, kind)), None)
