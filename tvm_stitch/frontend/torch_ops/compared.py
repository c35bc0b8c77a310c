"""A converter's result compared with what PyTorch says of it, and what no converter need do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import tvm
from torch import fx
from tvm import relax
from tvm.relax.frontend.torch.base_fx_graph_translator import BaseFXGraphImporter

from tvm_stitch.errors import StitchError

from .arithmetic import name_of
from .emitted import Emitted
from .spectra import REAL, is_complex, touches_complex

Convert = Callable[[fx.Node], Any]


def compared(
    convert: Convert | None,
    complex_: Convert | None,
    node: fx.Node,
    importer: BaseFXGraphImporter,
) -> Any:
    """Convert a node, one of complex numbers by a converter of its own.

    What has no elements is a constant. Raises: StitchError if the dtype or the shape is not the one
    that PyTorch gave the node.
    """
    chosen = complex_ if touches_complex(node) else convert
    if chosen is None:
        where, remedy = f"ExportedProgram, {node.target} {node.name!r}", "compute in real numbers"
        raise StitchError(where, "it is not imported for complex numbers", remedy)
    known = node.meta.get("val")
    if _is_empty(known):
        return _nothing(known, importer)
    made = _along_an_axis(chosen, node, importer) if _is_number(node) else chosen(node)
    ty = made.ty if isinstance(made, relax.Expr) else None
    if not isinstance(known, torch.Tensor) or not isinstance(ty, relax.TensorType):
        return made
    dtype, shape = _dtype(known), [*known.shape]
    if is_complex(known):
        shape = [*shape, 2]
    if str(ty.dtype) != dtype:
        raise StitchError(
            f"ExportedProgram, {node.target} {node.name!r}",
            f"TVM's torch importer makes {ty.dtype} of it, not {dtype}",
            "rewrite this part of the model",
        )
    extents = list(ty.shape.values) if isinstance(ty.shape, relax.ShapeExpr) else []
    given = [int(e) if isinstance(e, tvm.tirx.IntImm) else None for e in extents]
    wanted = [extent if isinstance(extent, int) else None for extent in shape]
    if len(given) != len(wanted) or any(
        None not in pair and pair[0] != pair[1] for pair in zip(given, wanted, strict=True)
    ):
        raise StitchError(
            f"ExportedProgram, {node.target} {node.name!r}",
            f"TVM's torch importer makes shape {given} of it, not {wanted}",
            "rewrite this part of the model",
        )
    return made


def _dtype(known: torch.Tensor) -> str:
    return REAL[known.dtype] if is_complex(known) else name_of(known.dtype)


def _is_empty(known: object) -> bool:
    """Return whether a tensor of known shape has no elements."""
    if not isinstance(known, torch.Tensor) or is_complex(known):
        return False
    return all(isinstance(extent, int) for extent in known.shape) and known.numel() == 0


def _nothing(known: torch.Tensor, importer: BaseFXGraphImporter) -> relax.Expr:
    dtype = _dtype(known)
    return importer.block_builder.emit(relax.const(np.empty(known.shape), dtype))


def _is_number(node: fx.Node) -> bool:
    """Return whether a node goes along an axis of a number, which PyTorch lets have one."""
    if not isinstance(node.target, torch._ops.OpOverload) or not node.args:
        return False
    schema = {arg.name: arg for arg in node.target._schema.arguments}
    first = node.args[0].meta.get("val") if isinstance(node.args[0], fx.Node) else None
    if "dim" not in schema or not isinstance(first, torch.Tensor) or first.ndim:
        return False
    place, otherwise = [*schema].index("dim"), schema["dim"].default_value
    given = node.args[place] if len(node.args) > place else node.kwargs.get("dim", otherwise)
    return given is not None and given != []


def _along_an_axis(convert: Convert, node: fx.Node, importer: BaseFXGraphImporter) -> Any:
    """Convert a node of numbers as one of lines of one element."""
    ops, before = Emitted(node, importer), dict(importer.env)
    for given in node.all_input_nodes:
        if isinstance(given.meta.get("val"), torch.Tensor) and not given.meta["val"].ndim:
            importer.env[given] = ops.reshape(importer.env[given], [1])
    try:
        made = convert(node)
    finally:
        importer.env.update(before)
    known = node.meta["val"]
    if isinstance(known, torch.Tensor):
        return ops.reshape(made, [*known.shape])
    if isinstance(made, relax.Expr):
        made = [ops.item(made, n) for n in range(len(known))]
    return tuple(ops.reshape(m, [*k.shape]) for m, k in zip(made, known, strict=False))
