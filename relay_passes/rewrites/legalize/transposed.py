"""Transposed convolutions with dilation: TVM's rule fills their kernels with zeros."""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax, te

from ..transposed_channels_first import convolve_apart, is_channels_first

Legalizer = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]


def transposed(otherwise: Legalizer) -> Legalizer:
    """Legalise one with dilation, of known shape, and others `otherwise`."""

    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        if not is_channels_first(call) or {*map(int, call.attrs.dilation)} == {1}:
            return otherwise(builder, call)

        def compute(x: te.Tensor, weight: te.Tensor) -> te.Tensor:
            return convolve_apart(x, weight, call)

        name = call.op.name.rpartition(".")[2]
        return builder.call_te(compute, *call.args, primfunc_name_hint=name)

    return legalize
