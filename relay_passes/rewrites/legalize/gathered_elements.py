"""Scatters along one axis as gathers: each element looks at the updates of its own row."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tvm import ir, relax, te, tirx

from ...policy import GatherPolicy
from .gathered_scatters import SUMS, in_turn
from .indexing import COMBINES, inside
from .scatters import Bound, Compute, Scatter, shape_of


def of_scatter_elements(call: relax.Call) -> Scatter:
    """Return a scatter along an axis as one to any elements, each of one number."""
    data, indices, updates = call.args
    extents, counts = shape_of(data), shape_of(indices)
    axis = int(call.attrs.axis) % len(extents)

    def bind(tensors: Sequence[te.Tensor]) -> Bound:
        data, indices, updates = tensors

        def place(at: Sequence[ir.Expr]) -> list[ir.Expr]:
            return [*at[:axis], inside(indices(*at), extents[axis]), *at[axis + 1 :]]

        return Bound(data, place, updates)

    def indices_of(known: list[np.ndarray]) -> np.ndarray:
        points = np.indices(counts)
        points[axis] = known[0]
        return points.reshape(len(counts), -1).T

    def unknown(scatter: Scatter, policy: GatherPolicy) -> Compute:
        few = counts[axis] <= policy.few
        known = scatter.reduction in ("update", *SUMS)
        if not few and not (known and counts[axis] * math.prod(extents) <= policy.compared):
            return None
        return lambda *tensors: _beside(scatter, scatter.bind(tensors), axis, few)

    return Scatter(
        str(call.attrs.reduction),
        tuple(extents),
        (),
        tuple(counts),
        (data, indices, updates),
        (indices,),
        indices_of,
        bind,
        unknown,
    )


def _beside(scatter: Scatter, bound: Bound, axis: int, few: bool) -> te.Tensor:
    k = te.reduce_axis((0, scatter.counts[axis]), "k")
    none, sides = tirx.const(-1, "int32"), (scatter.counts, scatter.lead)
    short = [a for a, (n, m) in enumerate(zip(*sides, strict=True)) if a != axis and n < m]

    def update_of(at: Sequence[ir.Expr], k: ir.Expr) -> list[ir.Expr]:
        own = [tirx.min(p, scatter.counts[a] - 1) if a in short else p for a, p in enumerate(at)]
        return [*own[:axis], k, *own[axis + 1 :]]

    def place(*at: tirx.Var) -> ir.Expr:
        found = tirx.Cast("int32", bound.indices(at)[axis])
        inside = [at[a] < scatter.counts[a] for a in short]
        return tirx.if_then_else(tirx.all(*inside), found, none) if short else found

    # A stage of its own: narrow places take half the lanes of wide ones to compare. And TVM drops
    # a bound of an index where a condition of the same Select implies it, of which both sides run.
    extents = [n if a == axis else m for a, (n, m) in enumerate(zip(*sides, strict=True))]
    places = te.compute(extents, place, "places")

    def hits(at: Sequence[ir.Expr], k: ir.Expr) -> ir.Expr:
        found = places(*at[:axis], k, *at[axis + 1 :])
        return tirx.EQ(found, tirx.Cast("int32", at[axis]))

    combine, shape = COMBINES[scatter.reduction], bound.data.shape
    if few:

        def asked(number: int, at: Sequence[ir.Expr]) -> tuple[ir.Expr, ir.Expr]:
            k = tirx.const(number)
            return hits(at, k), bound.updates(*update_of(at, k))

        return in_turn(bound.data, combine, scatter.counts[axis], asked)
    if scatter.reduction in SUMS:
        scan = SUMS[scatter.reduction]
        nothing = tirx.const(scan.neutral, bound.data.dtype)

        def total(*at: tirx.Var) -> ir.Expr:
            return scan.reduce(
                tirx.Select(hits(at, k), bound.updates(*update_of(at, k)), nothing), axis=k
            )

        totals = te.compute(shape, total, "totals")
        return te.compute(shape, lambda *at: combine(bound.data(*at), totals(*at)), "scatter")
    # Apart from the reduction: TVM takes a maximum of a choice into the choice.
    found = te.compute(
        (*shape, scatter.counts[axis]),
        lambda *at: tirx.Select(hits(at[:-1], at[-1]), tirx.Cast("int32", at[-1]), none),
        "found",
    )
    last = te.compute(shape, lambda *at: te.max(found(*at, k), axis=k), "last")

    def element(*at: tirx.Var) -> ir.Expr:
        row = last(*at)
        update = bound.updates(*update_of(at, tirx.max(row, tirx.const(0, "int32"))))
        return tirx.Select(row > none, update, bound.data(*at))

    return te.compute(shape, element, "scatter")
