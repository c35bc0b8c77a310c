"""Calls that PyTorch allows and TVM's converters do not, and random ones that they pass by."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from torch import fx
from tvm import relax
from tvm.relax.frontend.torch.base_fx_graph_translator import BaseFXGraphImporter

from .emitted import Emitted, by_name


def top(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: topk(x, k, sorted=False) -> topk(x, k)   # sorted is an order too"""
    data, k, axis, largest, *_ = [*node.args, *(-1, True, True)[len(node.args) - 2 :]]
    axis, largest = node.kwargs.get("dim", axis), node.kwargs.get("largest", largest)
    made = relax.op.topk(importer.env[data], k, axis, "both", largest, "int64")
    return importer.block_builder.emit(made)


def join(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: cat([empty(0), x], axis) -> x   # a list of nothing goes with any shape"""
    given = importer.retrieve_args(node)[0]
    axis = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    ranks = {value.ty.ndim for value in given}
    kept = given if len(ranks) == 1 else [v for v in given if not _is_nothing(v)]
    if len(kept) == 1:
        return kept[0]
    return importer.block_builder.emit(relax.op.concat(kept, axis=axis))


def _is_nothing(value: relax.Expr) -> bool:
    return [int(extent) for extent in value.ty.shape.values] == [0]


def group_norm(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: native_group_norm(x, w, None, ...) -> group_norm(x, w, zeros, ...)"""
    data, weight, bias, _, channels, _, groups, epsilon = node.args
    x = importer.env[data]
    dtype = str(x.ty.dtype)

    def by_channel(given: fx.Node | None, value: float) -> relax.Expr:
        if given is not None:
            return importer.env[given]
        return relax.const(np.full(channels, value), dtype)

    made = relax.op.nn.group_norm(
        x,
        by_channel(weight, 1.0),
        by_channel(bias, 0.0),
        num_groups=groups,
        channel_axis=1,
        axes=list(range(2, x.ty.ndim)),
        epsilon=epsilon,
    )
    return importer.block_builder.emit(made)


def dropout(ops: Emitted, x: relax.Expr, p: float, train: bool | None) -> tuple[relax.Expr]:
    """rewrite: native_dropout(x, p, False) -> x"""
    if train is not False and p > 0:
        raise ops.refuse(f"it drops {p} of its elements at random", "export it in eval mode")
    return (x,)


def bernoulli(ops: Emitted, x: relax.Expr, p: float, generator: object) -> NoReturn:
    raise ops.refuse("it is random", "draw outside of the model, and hand it over")


def converted(ops: Emitted, a: relax.Expr, dtype: object) -> relax.Expr:
    """rewrite: prims.convert_element_type(x, dtype) -> astype(x, dtype)"""
    return ops.cast(a)


LENIENT = {
    "convert_element_type.default": by_name(converted),
    "topk.default": top,
    "cat.default": join,
    "native_group_norm.default": group_norm,
    "native_dropout.default": by_name(dropout),
    "bernoulli.p": by_name(bernoulli),
}
