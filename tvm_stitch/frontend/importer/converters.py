"""Operators that neither TVM's importer nor ONNX's other operators have, as tensor expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx
from tvm import relax, te, tirx

Converter = Callable[[relax.BlockBuilder, Sequence[relax.Expr], Mapping], relax.Expr]


def _bit_cast(
    builder: relax.BlockBuilder, inputs: Sequence[relax.Expr], attrs: Mapping
) -> relax.Expr:
    """Return the bits of an array as numbers of another type of as many bits."""
    dtype = onnx.helper.tensor_dtype_to_np_dtype(attrs["to"]).name

    def element(value: tirx.PrimExpr, source: str) -> tirx.PrimExpr:
        value = value.astype("uint8") if source == "bool" else value
        if dtype == "bool":
            return tirx.reinterpret("uint8", value) != tirx.const(0, "uint8")
        return tirx.reinterpret(dtype, value)

    def bits(x: te.Tensor) -> te.Tensor:
        return te.compute(x.shape, lambda *i: element(x(*i), str(x.dtype)), "bits")

    return builder.emit_te(bits, inputs[0])


CONVERTERS: dict[str, Converter] = {"BitCast": _bit_cast}
