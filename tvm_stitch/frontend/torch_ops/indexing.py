"""PyTorch's indexing by tensors as Relax: `x[i, :, j]`, `x[i, :, j] = v`, `x.take(i)`.

TVM's converters take the outer product of indices that PyTorch pairs, and read what a negative
index names from before the tensor.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from torch import fx
from tvm import relax
from tvm.relax.frontend.torch.base_fx_graph_translator import BaseFXGraphImporter

from tvm_stitch.errors import StitchError


def index(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: x[:, i, j] -> permute_dims(index_tensor(permute_dims(x), (i, j)))"""
    data, given = importer.retrieve_args(node)[:2]
    _refuse_masks(given, "a result's shape would depend on data")
    emit = importer.block_builder.emit
    axes, others = _split(given, data.ty.ndim)
    first = _permuted(emit, data, [*axes, *others])
    picked = emit(relax.op.index_tensor(first, [given[axis] for axis in axes]))
    width = picked.ty.ndim - len(others)
    return _permuted(emit, picked, _inverse(_rows_first(axes, width, len(others))))


def index_put(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: x[:, i, j] = v
    -> permute_dims(scatter_nd(permute_dims(x), stack(i, j), permute_dims(broadcast_to(v))))
    """
    data, given, values, *rest = importer.retrieve_args(node)
    accumulate = bool(rest and rest[0])
    if accumulate:
        _refuse_bools(data)
    emit = importer.block_builder.emit
    if len(given) == 1 and _is_mask(given[0]) and values.ty.ndim <= data.ty.ndim - given[0].ty.ndim:
        return _masked(emit, data, given[0], values, accumulate)
    _refuse_masks(given, "values for as many elements as it chooses")
    axes, others = _split(given, data.ty.ndim)
    order = [*axes, *others]
    shape = list(data.ty.shape.values)
    rows = _broadcast([given[axis] for axis in axes])
    columns = [
        emit(relax.op.expand_dims(relax.op.broadcast_to(_wide(given[axis]), rows), -1))
        for axis in axes
    ]
    chosen = columns[0] if len(columns) == 1 else emit(relax.op.concat(columns, axis=-1))
    layout = _rows_first(axes, len(rows), len(others))
    whole = [*rows, *(shape[axis] for axis in others)]
    placed = emit(relax.op.broadcast_to(values, [whole[axis] for axis in _inverse(layout)]))
    updates = _permuted(emit, placed, layout)
    first = _permuted(emit, data, order)
    put = emit(relax.op.scatter_nd(first, chosen, updates, "add" if accumulate else "update"))
    return _permuted(emit, put, _inverse(order))


def select(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: x.select(axis, -1) -> take(x, n - 1, axis)   # n elements along the axis"""
    data, axis, chosen = importer.retrieve_args(node)
    extent = data.ty.shape.values[axis]
    place = chosen + int(extent) if chosen < 0 and isinstance(extent, tvm.tirx.IntImm) else chosen
    return importer.block_builder.emit(relax.op.take(data, relax.const(place, "int64"), axis))


def take(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: x.take(i) -> index_tensor(reshape(x, -1), i)"""
    data, chosen = importer.retrieve_args(node)
    emit = importer.block_builder.emit
    return emit(relax.op.index_tensor(emit(relax.op.reshape(data, [-1])), [chosen]))


def embedding(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: embedding(w, i) -> take(w, i), which TVM's makes of i cut to 32 bits"""
    weight, chosen = importer.retrieve_args(node)[:2]
    return importer.block_builder.emit(relax.op.take(weight, chosen, axis=0))


def grid_sample(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: grid_sample(x, grid[n, h, w, 2]) -> grid_sample(x, grid[n, 2, h, w])"""
    data, grid, method, padding, corners = importer.retrieve_args(node)
    emit = importer.block_builder.emit
    return emit(
        relax.op.image.grid_sample(
            data,
            emit(relax.op.permute_dims(grid, [0, 3, 1, 2])),
            method=("bilinear", "nearest", "bicubic")[method],
            layout="NCHW",
            padding_mode=("zeros", "border", "reflection")[padding],
            align_corners=corners,
        )
    )


INDEXING = {
    "index.Tensor": index,
    "index_put.default": index_put,
    "select.int": select,
    "take.default": take,
    "embedding.default": embedding,
    "grid_sampler_2d.default": grid_sample,
}


def _masked(emit, data, mask, values, accumulate: bool) -> relax.Var:
    """rewrite: x[mask] = v -> where(mask, v, x)"""
    shape = list(data.ty.shape.values)
    for _ in range(data.ty.ndim - mask.ty.ndim):
        mask = emit(relax.op.expand_dims(mask, -1))
    new = emit(relax.op.add(data, values)) if accumulate else values
    return emit(relax.op.where(emit(relax.op.broadcast_to(mask, shape)), new, data))


def _split(given: Sequence[relax.Expr | None], rank: int) -> tuple[list[int], list[int]]:
    """Return the axes that are indexed, and the others."""
    axes = [axis for axis, chosen in enumerate(given) if chosen is not None]
    return axes, [axis for axis in range(rank) if axis not in axes]


def _rows_first(axes: list[int], width: int, others: int) -> list[int]:
    """Return which axis of the indexed result each is, were those of the indices the first.

    They are where the indexed axes are if these are neighbours, and the first if not.
    """
    neighbours = axes[-1] - axes[0] == len(axes) - 1
    before = axes[0] if neighbours else 0
    rows = range(before, before + width)
    return [*rows, *range(before), *range(before + width, width + others)]


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def _permuted(emit, value: relax.Expr, order: list[int]) -> relax.Expr:
    return value if order == sorted(order) else emit(relax.op.permute_dims(value, order))


def _broadcast(indices: Sequence[relax.Expr]) -> list:
    """Return the common shape of tensors that NumPy would broadcast."""
    rank = max(index.ty.ndim for index in indices)
    shape: list = [1] * rank
    for index in indices:
        own = list(index.ty.shape.values)
        for axis, extent in enumerate(own, rank - len(own)):
            shape[axis] = shape[axis] if extent == 1 else extent
    return shape


def _wide(index: relax.Expr) -> relax.Expr:
    return relax.op.astype(index, "int64")


def _is_mask(chosen: relax.Expr | None) -> bool:
    return chosen is not None and str(chosen.ty.dtype) in ("bool", "uint8")


def _refuse_bools(data: relax.Expr) -> None:
    if str(data.ty.dtype) == "bool":
        rule = "it adds up bools"
        raise StitchError("ExportedProgram, writing by an index", rule, "add up integers")


def _refuse_masks(given: Sequence[relax.Expr | None], why: str) -> None:
    if any(map(_is_mask, given)):
        raise StitchError("ExportedProgram, indexing by a mask", why, "use torch.where")
