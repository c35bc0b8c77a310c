"""Operators that neither TVM's importer nor ONNX's other operators have, as tensor expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx
from tvm import relax, te, tirx

from tvm_stitch.frontend.onnx_graph.narrow import narrow_of
from tvm_stitch.runtime.dtypes import numpy_dtype
from tvm_stitch.runtime.onnx_segment import FUNCTION

Converter = Callable[[relax.BlockBuilder, Sequence[relax.Expr], Mapping], relax.Expr]


def _bit_cast(
    builder: relax.BlockBuilder, inputs: Sequence[relax.Expr], attrs: Mapping
) -> relax.Expr:
    """Return the bits of an array as numbers of another type of as many bits.

    Raises: ValueError for another width, and for narrow types, whose bits a model does not have.
    """
    made = onnx.helper.tensor_dtype_to_np_dtype(attrs["to"])
    given, dtype = numpy_dtype(str(inputs[0].ty.dtype)), made.name
    if given.itemsize != made.itemsize or narrow_of(made) is not None:
        raise ValueError(f"{given} has no bits of {made}")

    def element(value: tirx.PrimExpr, source: str) -> tirx.PrimExpr:
        value = value.astype("uint8") if source == "bool" else value
        if dtype == "bool":
            return tirx.reinterpret("uint8", value) != tirx.const(0, "uint8")
        return tirx.reinterpret(dtype, value)

    def bits(x: te.Tensor) -> te.Tensor:
        return te.compute(x.shape, lambda *i: element(x(*i), str(x.dtype)), "bits")

    return builder.emit_te(bits, inputs[0])


def _call(builder: relax.BlockBuilder, inputs: Sequence[relax.Expr], attrs: Mapping) -> relax.Expr:
    """Return a call of a function, ONNX Runtime's by default.

    `types` are of its results, such as float32:2,3.
    """
    kinds = []
    for text in attrs["types"]:
        dtype, _, shape = (text.decode() if isinstance(text, bytes) else text).partition(":")
        kinds.append(relax.TensorType([int(n) for n in shape.split(",") if n], dtype))
    function = attrs.get("function", FUNCTION)
    function = function.decode() if isinstance(function, bytes) else function
    return relax.call_dps_packed(function, list(inputs), kinds[0] if len(kinds) == 1 else kinds)


def _einsum(
    builder: relax.BlockBuilder, inputs: Sequence[relax.Expr], attrs: Mapping
) -> relax.Expr:
    """Return the operator, where TVM's importer has its kernel at once."""
    return relax.op.einsum(list(inputs), attrs["equation"].decode())


def _slice(builder: relax.BlockBuilder, inputs: Sequence[relax.Expr], attrs: Mapping) -> relax.Expr:
    """Return a part of an array, as operator sets before 10 ask for one."""
    starts, ends = list(attrs["starts"]), list(attrs["ends"])
    axes = list(attrs.get("axes", range(len(starts))))
    return relax.op.strided_slice(inputs[0], axes, starts, ends, assume_inbound=False)


CONVERTERS: dict[str, Converter] = {
    "BitCast": _bit_cast,
    "Einsum": _einsum,
    "Marker": _call,
    "OnnxSegment": _call,
}
_OLD = {"Slice": ("starts", _slice)}  # by an attribute that newer forms lack


def converter_of(op: str, attrs: Mapping) -> Converter | None:
    """Return our converter of a node, None where TVM's importer has its own."""
    if op in _OLD:
        mark, converter = _OLD[op]
        return converter if mark in attrs else None
    return CONVERTERS.get(op)
