"""The place of the largest or smallest element of an axis, as two reductions of single values.

TVM reduces pairs of a value and a place: no template takes that, and a row of -inf has the place -1
for its maximum. Here the first place that has the extreme value is the least of all that have it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm import relax, te, tirx, topi


def place_of_extreme(largest: bool) -> Callable[[relax.BlockBuilder, relax.Call], relax.Expr]:
    """Return the legaliser of argmax, or of argmin.

    A NaN is neither larger nor smaller than anything, so that it has no place, but for that of the
    first element, which nothing exceeds then: as ONNX Runtime counts.

    rewrite:
        argmax(x) -> m = max(x without NaN); where(isnan(x[0]), 0, min(k where x[k] == m))
    """
    name = "argmax" if largest else "argmin"

    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        dtype = str(call.ty.dtype)

        def compute(x: te.Tensor) -> te.Tensor:
            axis, keepdims = call.attrs.axis, bool(call.attrs.keepdims)
            if axis is None:
                whole = topi.reshape(x, (math.prod(int(n) for n in x.shape),))
                made = _place(whole, 0, largest, dtype)
                return topi.reshape(made, [1] * len(x.shape)) if keepdims else made
            at = int(axis) % len(x.shape)
            made = _place(x, at, largest, dtype)
            return topi.expand_dims(made, at) if keepdims else made

        return builder.call_te(compute, *call.args, primfunc_name_hint=name)

    return legalize


def _place(x: te.Tensor, axis: int, largest: bool, dtype: str) -> te.Tensor:
    x = topi.cast(x, "float32") if str(x.dtype) in ("float16", "bfloat16") else x
    outer = [*x.shape[:axis], *x.shape[axis + 1 :]]
    extent, floats = int(x.shape[axis]), "float" in str(x.dtype)
    identity = (tirx.min_value if largest else tirx.max_value)(x.dtype)
    if floats:
        identity = tirx.FloatImm(x.dtype, -math.inf if largest else math.inf)

    def element(at: tuple, k: tirx.Expr) -> tirx.Expr:
        return x(*at[:axis], k, *at[axis:])

    def counted(at: tuple, k: tirx.Expr) -> tirx.Expr:
        value = element(at, k)
        return tirx.Select(tirx.isnan(value), identity, value) if floats else value

    k, n = te.reduce_axis((0, extent), "k"), te.reduce_axis((0, extent), "n")
    # TVM's own begin at the largest finite number, which no infinity exceeds.
    reduce = te.comm_reducer(_larger if largest else _smaller, lambda _: identity)
    extreme = te.compute(outer, lambda *at: reduce(counted(at, k), axis=k), "extreme")

    def candidate(*at: tirx.Var) -> tirx.Expr:
        place, others = tirx.Cast("int32", at[axis]), (*at[:axis], *at[axis + 1 :])
        return tirx.Select(tirx.EQ(x(*at), extreme(*others)), place, tirx.const(extent))

    # Apart from the reduction: TVM takes a minimum of a choice into the choice.
    places = te.compute(x.shape, candidate, "places")
    first = te.compute(
        outer, lambda *at: te.min(places(*at[:axis], n, *at[axis:]), axis=n), "first"
    )

    def chosen(*at: tirx.Var) -> tirx.Expr:
        place = tirx.Cast(dtype, first(*at))
        if not floats:
            return place
        zero = tirx.const(0, dtype)
        return tirx.Select(tirx.isnan(element(at, tirx.const(0))), zero, place)

    return te.compute(outer, chosen, "place")


def _larger(one: tirx.Expr, other: tirx.Expr) -> tirx.Expr:
    return tirx.Max(one, other)


def _smaller(one: tirx.Expr, other: tirx.Expr) -> tirx.Expr:
    return tirx.Min(one, other)
