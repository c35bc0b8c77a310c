"""PyTorch's windows and histograms as Relax."""

from __future__ import annotations

import numpy as np
from torch import fx
from tvm import relax
from tvm.relax.frontend.torch.base_fx_graph_translator import BaseFXGraphImporter

from tvm_stitch.errors import StitchError


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


WINDOWS = {"unfold.default": unfold, "histc.default": histogram}
