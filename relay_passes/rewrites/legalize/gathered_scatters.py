"""Scatters as gathers: each element of the result asks which update it is, if any.

A scatter walks its updates one by one and stores wherever they say, which no template takes. Where
the places are known, so is what each element becomes: one of a window, or what a table says. Where
a few updates may go anywhere, each element looks at all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, relax, te, tirx, topi

from ...policy import POLICY, GatherPolicy
from .block_scans import PRODUCT, SUM
from .constants import KnownValues
from .indexing import COMBINES, Combine, unravelled
from .scatters import Bound, Compute, Scatter

Legalizer = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]
# Of an update by its place in the order, and an element: whether it goes there, and what it is.
Asked = Callable[[int, Sequence[ir.Expr]], tuple[ir.Expr, ir.Expr]]
SUMS = {"add": SUM, "mul": PRODUCT}


def gathered(
    describe: Callable[[relax.Call], Scatter],
    otherwise: Legalizer,
    policy: GatherPolicy = POLICY.gathers,
) -> Legalizer:
    """Return a legaliser that makes gathers of scatters where that pays."""

    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        scatter = describe(call)
        if 0 in (*scatter.lead, *scatter.rest, *scatter.counts):
            return otherwise(builder, call)
        values = KnownValues(builder, policy.known_points)
        known = [values(column) for column in scatter.columns]
        compute = None
        if all(each is not None for each in known):
            compute, tables = _of_known(scatter, scatter.indices_of(known), policy)
        if compute is None:
            compute, tables = (scatter.unknown or _of_unknown)(scatter, policy), ()
        if compute is None:
            return otherwise(builder, call)
        name, arguments = call.op.name.rpartition(".")[2], (*scatter.arguments, *tables)
        return builder.call_te(compute, *arguments, primfunc_name_hint=name)

    return legalize


def _of_known(
    scatter: Scatter, known: np.ndarray, policy: GatherPolicy
) -> tuple[Compute, tuple[relax.Expr, ...]]:
    numbers, last = _numbers(known, scatter.lead), scatter.reduction == "update"
    most = 1 if last else int(np.unique(numbers, return_counts=True)[1].max())
    large = math.prod(scatter.lead) * most > policy.in_table
    if most > policy.of_a_place or (most > 1 and large):
        return None, ()
    table = updates_of(numbers, scatter.lead, last)
    if most == 1 and (box := box_of(table[..., 0])) is not None:
        return lambda *tensors: _windowed(scatter, scatter.bind(tensors), box), ()
    if large:
        return None, ()

    def look_up(*tensors: te.Tensor) -> te.Tensor:
        *own, table = tensors
        return _looked_up(scatter, scatter.bind(own), table)

    return look_up, (relax.const(table),)


def updates_of(numbers: np.ndarray, lead: Sequence[int], last: bool) -> np.ndarray:
    """Return the updates of each point in their order, or the last alone, (*lead, most), -1: none.

    `numbers` are the row-major ones of the points that updates go to.
    """
    order = np.argsort(numbers, kind="stable").astype("int32")
    places = numbers[order]
    ranks = np.arange(len(places)) - np.searchsorted(places, places)
    if last:
        final = np.searchsorted(places, places, side="right") - 1 == np.arange(len(places))
        order, places, ranks = order[final], places[final], np.zeros(final.sum(), int)
    table = np.full((math.prod(lead), int(ranks.max()) + 1), -1, "int32")
    table[places, ranks] = order
    return table.reshape(*lead, -1)


def _of_unknown(scatter: Scatter, policy: GatherPolicy) -> Compute:
    replaces, few = scatter.reduction == "update", scatter.count <= policy.few
    compared = math.prod(scatter.lead) * scatter.count
    if replaces and (few or compared <= policy.compared):
        return lambda *tensors: _last(scatter, scatter.bind(tensors))
    if few:
        return lambda *tensors: _one_by_one(scatter, scatter.bind(tensors))
    if scatter.reduction in SUMS and compared * math.prod(scatter.rest) <= policy.compared:
        return lambda *tensors: _summed(scatter, scatter.bind(tensors))
    return None


def _numbers(known: np.ndarray, lead: Sequence[int]) -> np.ndarray:
    """Return the row-major number of each point; indices are bounded as a scatter's are."""
    extents = np.array(lead, "int64")
    wide = known.astype("int64")
    wide = np.clip(np.where(wide < 0, wide + extents, wide), 0, extents - 1)
    return np.ravel_multi_index(tuple(wide.T), tuple(lead))


@dataclass(frozen=True)
class Box:
    """The points that updates are put at, in their order: every so many from a start, each axis."""

    starts: tuple[int, ...]
    steps: tuple[int, ...]
    counts: tuple[int, ...]


def box_of(inverse: np.ndarray) -> Box | None:
    """Return the box that the updates fill in their order, None if they do not."""
    put = inverse >= 0
    axes = range(put.ndim)
    along = [np.flatnonzero(put.any(axis=tuple(a for a in axes if a != axis))) for axis in axes]
    steps = [int(at[1] - at[0]) if len(at) > 1 else 1 for at in along]
    if not all(np.all(np.diff(at) == step) for at, step in zip(along, steps, strict=True)):
        return None
    inner = inverse[np.ix_(*along)]
    if not np.array_equal(inner.ravel(), np.arange(put.sum())):
        return None
    return Box(tuple(int(at[0]) for at in along), tuple(steps), inner.shape)


def _windowed(scatter: Scatter, bound: Bound, box: Box) -> te.Tensor:
    updates = topi.reshape(bound.updates, (*box.counts, *scatter.rest))

    def element(*at: tirx.Var) -> ir.Expr:
        asked, own = [], list(at)
        sides = zip(scatter.lead, box.starts, box.steps, box.counts, strict=True)
        for axis, (extent, start, step, count) in enumerate(sides):
            last, offset = start + step * (count - 1), at[axis] - start
            asked += [at[axis] >= start] if start else []
            asked += [at[axis] <= last] if last < extent - 1 else []
            asked += [tirx.EQ(offset % step, tirx.const(0, offset.ty.dtype))] if step > 1 else []
            own[axis] = offset // step
        new = COMBINES[scatter.reduction](bound.data(*at), updates(*own))
        return tirx.if_then_else(tirx.all(*asked), new, bound.data(*at)) if asked else new

    return te.compute(bound.data.shape, element, "scatter")


def _looked_up(scatter: Scatter, bound: Bound, table: te.Tensor) -> te.Tensor:
    """Return the result where `table` says which updates each point of `lead` gets, -1 for none."""
    zero = tirx.const(0, table.dtype)

    def asked(number: int, at: Sequence[ir.Expr]) -> tuple[ir.Expr, ir.Expr]:
        row = table(*at[: len(scatter.lead)], number)
        return row >= zero, _update(scatter, bound, tirx.max(row, zero), at)

    return in_turn(bound.data, COMBINES[scatter.reduction], int(table.shape[-1]), asked)


def in_turn(data: te.Tensor, combine: Combine, count: int, asked: Asked) -> te.Tensor:
    """Return the result where each element takes updates one after the other.

    Each is a stage: a combination has its operand twice, and some dozens written out in one
    expression would be more than there is memory for.
    """

    def taken(value: te.Tensor, number: int) -> Callable[..., ir.Expr]:
        def element(*at: tirx.Var) -> ir.Expr:
            goes, update = asked(number, at)
            return tirx.Select(goes, combine(value(*at), update), value(*at))

        return element

    value = data
    for number in range(count):
        value = te.compute(data.shape, taken(value, number), "scatter")
    return value


def _update(scatter: Scatter, bound: Bound, number: ir.Expr, at: Sequence[ir.Expr]) -> ir.Expr:
    return bound.updates(*unravelled(number, scatter.counts), *at[len(scatter.lead) :])


def _last(scatter: Scatter, bound: Bound) -> te.Tensor:
    """Return the result where each point gets the last of the updates that go there."""
    hits = _hits(scatter, bound)
    none, k = tirx.const(-1, "int32"), te.reduce_axis((0, scatter.count), "k")
    # Apart from the reduction: TVM takes a maximum of a choice into the choice.
    found = te.compute(
        (*scatter.lead, scatter.count),
        lambda *at: tirx.Select(hits(at[-1], at[:-1]), tirx.Cast("int32", at[-1]), none),
        "found",
    )
    last = te.compute((*scatter.lead, 1), lambda *at: te.max(found(*at[:-1], k), axis=k), "last")
    return _looked_up(scatter, bound, last)


def _one_by_one(scatter: Scatter, bound: Bound) -> te.Tensor:
    hits = _hits(scatter, bound)

    def asked(number: int, at: Sequence[ir.Expr]) -> tuple[ir.Expr, ir.Expr]:
        k = tirx.const(number)
        return hits(k, at[: len(scatter.lead)]), _update(scatter, bound, k, at)

    return in_turn(bound.data, COMBINES[scatter.reduction], scatter.count, asked)


def _summed(scatter: Scatter, bound: Bound) -> te.Tensor:
    """Return the result where each point gets all of the updates that go there."""
    hits, scan = _hits(scatter, bound), SUMS[scatter.reduction]
    k, nothing = te.reduce_axis((0, scatter.count), "k"), tirx.const(scan.neutral, bound.data.dtype)

    def total(*at: tirx.Var) -> ir.Expr:
        update = _update(scatter, bound, k, at)
        return scan.reduce(tirx.Select(hits(k, at[: len(scatter.lead)]), update, nothing), axis=k)

    totals = te.compute(bound.data.shape, total, "totals")
    return te.compute(
        bound.data.shape, lambda *at: scan.combine(bound.data(*at), totals(*at)), "scatter"
    )


def _hits(scatter: Scatter, bound: Bound) -> Callable[[ir.Expr, Sequence[ir.Expr]], ir.Expr]:
    """Return what asks whether an update, by its number, goes to a point."""

    def number(at: Sequence[ir.Expr]) -> ir.Expr:
        flat = at[0]
        for place, extent in zip(at[1:], scatter.lead[1:], strict=True):
            flat = flat * extent + place
        return tirx.Cast("int32", flat)

    numbers = te.compute(
        (scatter.count,), lambda k: number(bound.indices(unravelled(k, scatter.counts))), "numbers"
    )
    return lambda k, lead: tirx.EQ(numbers(k), number(lead))
