"""Products of sorted rows with the weights of their experts."""

from __future__ import annotations

import numpy as np
from torch import fx
from tvm import relax
from tvm.relax.frontend.torch.base_fx_graph_translator import BaseFXGraphImporter


def grouped_product(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: grouped_mm(x, w, ends) -> sum over e of where(row is of e, x @ w[e], 0)

    Rows from `ends[e - 1]` on are of expert e; those behind all ends are 0. All experts multiply
    all rows: how many rows one has is known to data alone.
    """
    x, weights, ends = (importer.env[each] for each in node.args[:3])
    emit = importer.block_builder.emit
    rows, experts = int(x.ty.shape.values[0]), int(weights.ty.shape.values[0])
    made = emit(relax.op.matmul(emit(relax.op.expand_dims(x, 0)), weights))
    numbers = relax.const(np.arange(rows).reshape(1, rows, 1), "int64")
    ends = emit(relax.op.reshape(emit(relax.op.astype(ends, "int64")), [experts, 1, 1]))
    first = relax.const(np.zeros((1, 1, 1)), "int64")
    before = emit(relax.op.strided_slice(ends, [0], [0], [experts - 1]))
    starts = emit(relax.op.concat([first, before], axis=0)) if experts > 1 else first
    begun = emit(relax.op.greater_equal(numbers, starts))
    own = emit(relax.op.logical_and(begun, emit(relax.op.less(numbers, ends))))
    zero = relax.const(0, str(made.ty.dtype))
    return emit(relax.op.sum(emit(relax.op.where(own, made, zero)), axis=0))


# The operator that transformers has where PyTorch's own can't be compiled.
EXPERTS = {"grouped_mm_fallback.default": grouped_product}
