"""PyTorch's views by strides, and writes into parts of a tensor, as Relax.

Where an element is from is what PyTorch's own operator makes of numbers of places.
"""

from __future__ import annotations

import numpy as np
import torch
import tvm_ffi
from torch import fx
from tvm import relax
from tvm.relax.frontend.torch.base_fx_graph_translator import BaseFXGraphImporter

from .emitted import WIDER, Emitted, by_name

# PyTorch's names of reductions by Relax's.
_REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max",
               "amin": "min"}  # fmt: skip

_OF_BOOLS = {"sum": "amax", "add": "amax", "prod": "amin", "multiply": "amin"}
# What elements are reduced in.
_WIDER = {**WIDER, "bool": "int8"}


def _numbers(value: torch.Tensor) -> torch.Tensor:
    """Return the place of each element of a tensor, in its shape."""
    return torch.arange(value.numel()).reshape(value.shape)


def strided(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Expr:
    """rewrite: as_strided(x, size, stride) -> take(reshape(x, -1), places)

    Raises: StitchError for a tensor that does not lie in memory as it is numbered.
    """
    ops, (data, *rest) = Emitted(node, importer), node.args
    if not data.meta["val"].is_contiguous():
        raise ops.refuse("it is of a tensor that is a view itself", "call contiguous() before")
    places = torch.as_strided(_numbers(data.meta["val"]), *rest, **node.kwargs)
    flat = ops.reshape(importer.env[data], [-1])
    return _shaped(ops, ops.take(flat, ops.const(places.reshape(-1).numpy(), "int64"), 0))


def put_into(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Expr:
    """rewrite: select_scatter(x, v, ...) -> where(written, take(reshape(v, -1), places), x)"""
    ops, (data, source, *rest) = Emitted(node, importer), node.args
    before = torch.full(data.meta["val"].shape, -1)
    places = node.target(before, _numbers(source.meta["val"]), *rest, **node.kwargs).numpy()
    flat = ops.reshape(ops.cast(importer.env[source]), [-1])
    taken = ops.take(flat, ops.const(np.maximum(places, 0).reshape(-1), "int64"), 0)
    written = ops.const(places >= 0, "bool")
    return ops.where(written, _shaped(ops, taken), importer.env[data])


def masked_scatter(ops: Emitted, x: relax.Expr, mask: relax.Expr, source: relax.Expr) -> relax.Expr:
    """rewrite: masked_scatter(x, m, v) -> where(m, take(reshape(v, -1), cumsum(m) - 1), x)"""
    shape = [*ops.known.shape]
    mask, x = ops.broadcast_to(mask, shape), ops.broadcast_to(x, shape)
    chosen = ops.reshape(ops.astype(mask, "int64"), [-1])
    places = ops.subtract(ops.cumsum(chosen, 0), ops.const(1, "int64"))
    inside = ops.maximum(places, ops.const(0, "int64"))
    taken = ops.take(ops.reshape(source, [-1]), inside, 0)
    return ops.where(mask, _shaped(ops, taken), x)


def gather(
    ops: Emitted, x: relax.Expr, dim: int, index: relax.Expr, sparse_grad: bool
) -> relax.Expr:
    return ops.gather_elements(x, ops.cast(index, "int64"), axis=dim)


def scatter(
    ops: Emitted,
    x: relax.Expr,
    dim: int,
    index: relax.Expr,
    src: relax.Expr,
    reduction: str = "update",
) -> relax.Expr:
    """rewrite: x.scatter(axis, i, v) -> scatter_elements(x, i, v[: i's extents])"""
    extents = list(index.ty.shape.values)
    if not tvm_ffi.structural_equal(index.ty.shape, src.ty.shape):
        every = list(range(len(extents)))
        src = ops.strided_slice(src, every, [0] * len(extents), extents)
    return ops.scatter_elements(x, ops.cast(index, "int64"), src, dim, reduction)


def scatter_add(
    ops: Emitted, x: relax.Expr, dim: int, index: relax.Expr, src: relax.Expr
) -> relax.Expr:
    return scatter_reduce(ops, x, dim, index, src, "sum")


def scatter_reduce(
    ops: Emitted,
    x: relax.Expr,
    dim: int,
    index: relax.Expr,
    src: relax.Expr,
    reduce: str,
    include_self: bool = True,
) -> relax.Expr:
    """rewrite: x.scatter_reduce(axis, i, v, op) -> scatter_elements(x, i, v[: i's extents], op)

    Halves are reduced in float32 and rounded once, as PyTorch does; bools added up are their or.
    """
    if not include_self:
        x = _without_self(ops, x, dim, index, reduce)
    wide = _WIDER.get(ops.dtype, ops.dtype)
    reduce = _OF_BOOLS.get(reduce, reduce) if ops.dtype == "bool" else reduce
    x, src = ops.cast(x, wide), ops.cast(src, wide)
    if reduce != "mean":
        return ops.cast(scatter(ops, x, dim, index, src, _REDUCTIONS[reduce]))
    extents, own = ([int(n) for n in of.ty.shape.values] for of in (index, x))
    # In integers: a float32 counts to 2 ** 24.
    ones, rest = (ops.const(np.full(shape, value), "int64")
                  for shape, value in ((extents, 1), (own, int(include_self))))  # fmt: skip
    counts = ops.maximum(scatter(ops, rest, dim, index, ones, "add"), ops.const(1, "int64"))
    total, counts = scatter(ops, x, dim, index, src, "add"), ops.cast(counts, wide)
    if not ops.known.dtype.is_floating_point:
        return ops.floor_divide(total, counts)
    return ops.cast(ops.divide(total, counts))


def _without_self(
    ops: Emitted, x: relax.Expr, dim: int, index: relax.Expr, reduce: str
) -> relax.Expr:
    """Return a tensor with what changes no reduction in the places that an index names."""
    known = ops.known.dtype
    if known.is_floating_point:
        least, most = -np.inf, np.inf
    elif known == torch.bool:
        least, most = 0, 1
    else:
        least, most = torch.iinfo(known).min, torch.iinfo(known).max
    start = {"prod": 1, "amax": least, "amin": most}.get(reduce, 0)
    extents = [int(extent) for extent in index.ty.shape.values]
    return scatter(ops, x, dim, index, ops.const(np.full(extents, start)))


def scatter_number(
    ops: Emitted, x: relax.Expr, dim: int, index: relax.Expr, value: float, reduce: str
) -> relax.Expr:
    extents = [int(extent) for extent in index.ty.shape.values]
    return scatter_reduce(ops, x, dim, index, ops.const(np.full(extents, value)), reduce)


def index_reduce(
    ops: Emitted,
    x: relax.Expr,
    dim: int,
    index: relax.Expr,
    source: relax.Expr,
    reduce: str,
    include_self: bool,
) -> relax.Expr:
    """rewrite: x.index_reduce(axis, i, v, op) -> x.scatter_reduce(axis, broadcast_to(i), v, op)"""
    extents = [int(extent) for extent in source.ty.shape.values]
    lined = [-1 if axis == dim % len(extents) else 1 for axis in range(len(extents))]
    every = ops.broadcast_to(ops.reshape(index, lined), extents)
    return scatter_reduce(ops, x, dim, every, source, reduce, include_self)


def narrow(ops: Emitted, x: relax.Expr, dim: int, start: int, length: int) -> relax.Expr:
    """rewrite: x.narrow(axis, start, n) -> x[start : start + n]   # TVM's ends at n"""
    first = start % int(x.ty.shape.values[dim])
    return ops.strided_slice(x, [dim], [first], [first + length])


def put(
    ops: Emitted, x: relax.Expr, index: relax.Expr, source: relax.Expr, accumulate: bool
) -> relax.Expr:
    """rewrite: x.put(i, v) -> scatter_elements(reshape(x, -1), i, v)"""
    if accumulate and ops.dtype == "bool":
        raise ops.refuse("it adds up bools", "add up integers")
    flat, places, values = (ops.reshape(each, [-1]) for each in (x, index, source))
    count = ops.const(ops.known.numel(), "int64")
    places = ops.floor_mod(ops.cast(places, "int64"), count)
    return _shaped(
        ops,
        ops.scatter_elements(flat, places, values, 0, "add" if accumulate else "update"),
    )


def _shaped(ops: Emitted, value: relax.Expr) -> relax.Expr:
    return ops.reshape(value, [*ops.known.shape])


SCATTERED = {
    "as_strided.default": strided,
    "select_scatter.default": put_into,
    "diagonal_scatter.default": put_into,
    "as_strided_scatter.default": put_into,
    "masked_scatter.default": by_name(masked_scatter),
    "gather.default": by_name(gather),
    "scatter.src": by_name(scatter),
    "scatter_add.default": by_name(scatter_add),
    "scatter_reduce.two": by_name(scatter_reduce),
    "scatter.reduce": by_name(scatter_reduce),
    "scatter.value_reduce": by_name(scatter_number),
    "index_reduce.default": by_name(index_reduce),
    "narrow.default": by_name(narrow),
    "narrow_copy.default": by_name(narrow),
    "put.default": by_name(put),
}
