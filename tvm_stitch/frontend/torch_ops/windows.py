"""PyTorch's windows, histograms and volumes as Relax."""

from __future__ import annotations

import numpy as np
from torch import fx
from tvm import relax
from tvm.relax.frontend.torch.base_fx_graph_translator import BaseFXGraphImporter

from tvm_stitch.errors import StitchError

from .emitted import Emitted, by_name


def unfold(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: x.unfold(axis, size, step) -> take(x, [0 .. size - 1, step .. step + size - 1 ..])

    Windows are the axis, their elements the last one.
    """
    data, (axis, size, step) = importer.env[node.args[0]], node.args[1:4]
    emit, shape = importer.block_builder.emit, [int(extent) for extent in data.ty.shape.values]
    if not shape:
        return emit(relax.op.broadcast_to(data, [size]))
    axis %= len(shape)
    count = (shape[axis] - size) // step + 1
    places = (np.arange(count)[:, None] * step + np.arange(size)).reshape(-1)
    taken = emit(relax.op.take(data, relax.const(places, "int64"), axis=axis))
    apart = emit(relax.op.reshape(taken, [*shape[:axis], count, size, *shape[axis + 1 :]]))
    order = [n for n in range(len(shape) + 1) if n != axis + 1]
    return emit(relax.op.permute_dims(apart, [*order, axis + 1]))


def histogram(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: x.histc(bins, low, high) -> sum(minimum(floor((x - low) / width), bins - 1) == bin)

    What is below or above is not counted.
    Raises: StitchError where the bounds are those of the data.
    """
    names = ("bins", "min", "max")
    given = [*node.args[1:], *(node.kwargs.get(n) for n in names[len(node.args) - 1 :])]
    bins, low, high = (n if n is not None else (100, 0, 0)[at] for at, n in enumerate(given))
    if low == high:
        rule = "its bounds are the data's"
        raise StitchError(f"ExportedProgram, histc {node.name!r}", rule, "give min and max")
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    dtype = str(data.ty.dtype)
    wide = dtype if dtype in ("float32", "float64") else "float64"
    x = emit(relax.op.reshape(emit(relax.op.astype(data, wide)), [-1, 1]))
    scaled = emit(relax.op.multiply(emit(relax.op.subtract(x, relax.const(float(low), wide))),
                                    relax.const(bins / (high - low), wide)))  # fmt: skip
    place = emit(relax.op.minimum(emit(relax.op.floor(scaled)), relax.const(bins - 1.0, wide)))
    inside = emit(relax.op.less_equal(x, relax.const(float(high), wide)))
    numbers = relax.const(np.arange(bins, dtype=wide).reshape(1, -1))
    equal = emit(relax.op.logical_and(emit(relax.op.equal(place, numbers)), inside))
    return emit(relax.op.sum(emit(relax.op.astype(equal, dtype)), axis=0))


def search_sorted(
    ops: Emitted,
    sorted_sequence: relax.Expr,
    x: relax.Expr | float,
    out_int32: bool,
    right: bool,
    side: str | None,
    sorter: relax.Expr | None,
) -> relax.Expr:
    """rewrite: searchsorted(s, x) -> sum(s < x, -1), of each line; right: s <= x

    A NaN is behind all numbers. Raises: StitchError for sequences that a sorter sorts.
    """
    if sorter is not None:
        raise ops.refuse("another tensor sorts its sequence", "sort it before")
    place = ops.cast(x, str(sorted_sequence.ty.dtype))
    line, place = ops.expand_dims(sorted_sequence, -2), ops.expand_dims(place, -1)
    behind = ops.greater if right or side == "right" else ops.greater_equal
    before = ops.logical_not(behind(line, place))
    return ops.sum(ops.cast(before), -1)


def convolution(
    ops: Emitted,
    x: relax.Expr,
    weight: relax.Expr,
    bias: relax.Expr | None,
    transposed: bool,
    **window: list[int] | int,
) -> relax.Var:
    """rewrite: convolution(volumes, w, b, transposed=True) -> conv3d_transpose(volumes, w) + b

    TVM's converter has those of lines and images.
    """
    if not transposed or x.ty.ndim != 5:
        return ops.importer._convolution(ops.node)
    made = relax.op.nn.conv3d_transpose(
        x,
        weight,
        strides=window["stride"],
        padding=window["padding"],
        output_padding=window["output_padding"],
        dilation=window["dilation"],
        groups=window["groups"],
    )
    made = ops.importer.block_builder.emit(made)
    return made if bias is None else ops.add(made, ops.reshape(bias, [1, -1, 1, 1, 1]))


WINDOWS = {
    "convolution.default": by_name(convolution),
    "unfold.default": unfold,
    "histc.default": histogram,
    "searchsorted.Tensor": by_name(search_sorted),
}
