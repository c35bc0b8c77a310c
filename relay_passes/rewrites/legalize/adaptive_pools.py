"""Adaptive average pools whose windows differ: sums over the widest, guarded by where each ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tvm import ir, relax, te, tirx, topi

from ..weights import shape_of

Legalizer = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]
_FLOATS = {"float16": "float32", "bfloat16": "float32", "float32": "float32", "float64": "float64"}


@dataclass(frozen=True)
class Span:
    """The windows along one axis, `axis` of the tensor: `outs` of them over `extent` elements."""

    axis: int
    extent: int
    outs: int

    @property
    def widest(self) -> int:
        ends = (-(-(at + 1) * self.extent // self.outs) for at in range(self.outs))
        return max(end - at * self.extent // self.outs for at, end in enumerate(ends))

    def start(self, at: ir.Expr) -> ir.Expr:
        return tirx.floordiv(at * self.extent, self.outs)

    def count(self, at: ir.Expr) -> ir.Expr:
        end = tirx.floordiv((at + 1) * self.extent + self.outs - 1, self.outs)
        return end - self.start(at)


def adaptive_average(otherwise: Legalizer) -> Legalizer:
    """Legalise pools of floats with windows of several sizes, and the others `otherwise`.

    rewrite: adaptive_avg_pool(x) -> sum(x[start(i) + k] for k < count(i)) / count(i)
    """

    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        extents, made, dtype = shape_of(call.args[0]), shape_of(call), str(call.ty.dtype)
        axes = [axis for axis, letter in enumerate(str(call.attrs.layout)) if letter in "DHW"]
        spans = [Span(axis, extents[axis], made[axis]) for axis in axes]
        alike = all(span.outs and span.extent % span.outs == 0 for span in spans)
        if alike or dtype not in _FLOATS or 0 in (*extents, *made):
            return otherwise(builder, call)
        name = call.op.name.rpartition(".")[2]
        return builder.call_te(lambda x: _pool(x, made, spans), *call.args, primfunc_name_hint=name)

    return legalize


def _pool(x: te.Tensor, made: list[int], spans: list[Span]) -> te.Tensor:
    dtype = str(x.dtype)
    wide = x if _FLOATS[dtype] == dtype else topi.cast(x, _FLOATS[dtype])
    ks = [te.reduce_axis((0, span.widest), f"k{span.axis}") for span in spans]

    def read(*at: tirx.Var) -> ir.Expr:
        places = list(at[: len(made)])
        for span, k in zip(spans, at[len(made) :], strict=True):
            last = tirx.const(span.extent - 1, k.ty.dtype)
            places[span.axis] = tirx.min(span.start(at[span.axis]) + k, last)
        return wide(*places)

    # A stage of its own: TVM drops a bound of an index where a condition of the same Select implies
    # it, of which both sides run.
    windows = te.compute([*made, *(span.widest for span in spans)], read, "windows")

    def total(*at: tirx.Var) -> ir.Expr:
        inside = [k < span.count(at[span.axis]) for span, k in zip(spans, ks, strict=True)]
        value = tirx.Select(tirx.all(*inside), windows(*at, *ks), tirx.const(0, wide.dtype))
        return te.sum(value, axis=ks)

    totals = te.compute(made, total, "totals")

    def mean(*at: tirx.Var) -> ir.Expr:
        count = math.prod((span.count(at[span.axis]) for span in spans), start=1)
        return totals(*at) / tirx.Cast(wide.dtype, count)

    means = te.compute(made, mean, "means")
    return means if _FLOATS[dtype] == dtype else topi.cast(means, dtype)
