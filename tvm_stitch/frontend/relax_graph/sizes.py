"""The sizes of what an imported function computes, before memory is taken for any."""

from __future__ import annotations

from collections.abc import Iterator

import tvm
from tvm import relax
from tvm.ir import Type

from tvm_stitch.frontend.onnx_graph.limits import check_size

WIDEST_BYTES = 8


def check_sizes(main: relax.Function, given: object) -> None:
    """Raise StitchError for a value of a negative extent, too many axes or too many bytes."""
    for param in main.params:
        _check(param.ty, f"{given}, input {param.name!r}")
    for block in main.body.blocks:
        for binding in block.bindings:
            _check(binding.var.ty, f"{given}, value {binding.var.name!r}")


def _check(ty: Type, given: str) -> None:
    for tensor in _tensors(ty):
        if isinstance(tensor.shape, relax.ShapeExpr):
            check_size([_extent(extent) for extent in tensor.shape.values], WIDEST_BYTES, given)


def _tensors(ty: Type) -> Iterator[relax.TensorType]:
    if isinstance(ty, relax.TensorType):
        yield ty
    elif isinstance(ty, relax.TupleType):
        for field in ty.fields:
            yield from _tensors(field)


def _extent(extent: tvm.ir.Expr) -> int | None:
    return int(extent) if isinstance(extent, tvm.tirx.IntImm) else None
