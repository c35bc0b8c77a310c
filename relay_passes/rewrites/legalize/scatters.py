"""What a scatter puts where: the operators that scatter, described alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, relax, te, topi

from ...policy import GatherPolicy
from .indexing import along, broadcast, fields, inside

Compute = Callable[..., te.Tensor] | None


@dataclass(frozen=True)
class Bound:
    """The tensors of a scatter: the data, the indices of each update, the updates by `counts`."""

    data: te.Tensor
    indices: Callable[[Sequence[ir.Expr]], list[ir.Expr]]
    updates: te.Tensor


@dataclass(frozen=True)
class Scatter:
    """A scatter whose updates, `counts` of them, each go to a point of the axes `lead`.

    There they are as large as the axes `rest`. `columns` are the tensors of the indices, of which
    `indices_of` makes an array (updates, axes) of known ones; `unknown` says how others are met.
    """

    reduction: str
    lead: tuple[int, ...]
    rest: tuple[int, ...]
    counts: tuple[int, ...]
    arguments: tuple[relax.Expr, ...]
    columns: tuple[relax.Expr, ...]
    indices_of: Callable[[list[np.ndarray]], np.ndarray]
    bind: Callable[[Sequence[te.Tensor]], Bound]
    unknown: Callable[[Scatter, GatherPolicy], Compute] | None = None

    @property
    def count(self) -> int:
        return math.prod(self.counts)


def of_scatter_nd(call: relax.Call) -> Scatter:
    data, indices, updates = call.args
    extents, (*counts, columns) = shape_of(data), shape_of(indices)

    def bind(tensors: Sequence[te.Tensor]) -> Bound:
        data, indices, updates = tensors

        def place(at: Sequence[ir.Expr]) -> list[ir.Expr]:
            return [inside(indices(*at, c), extents[c]) for c in range(columns)]

        return Bound(data, place, updates)

    return Scatter(
        str(call.attrs.reduction),
        tuple(extents[:columns]),
        tuple(extents[columns:]),
        tuple(counts),
        (data, indices, updates),
        (indices,),
        lambda known: known[0].reshape(-1, columns),
        bind,
    )


def of_index_put(call: relax.Call) -> Scatter:
    data, given, values = call.args
    columns, extents = fields(given), shape_of(data)
    counts = broadcast([shape_of(column) for column in columns])
    rest = extents[len(columns) :]

    def bind(tensors: Sequence[te.Tensor]) -> Bound:
        data, *indices, values = tensors

        def place(at: Sequence[ir.Expr]) -> list[ir.Expr]:
            pairs = zip(indices, extents, strict=False)
            return [inside(index(*along(index.shape, at)), extent) for index, extent in pairs]

        return Bound(data, place, topi.broadcast_to(values, (*counts, *rest)))

    return Scatter(
        "add" if call.attrs.accumulate else "update",
        tuple(extents[: len(columns)]),
        tuple(rest),
        tuple(counts),
        (data, *columns, values),
        tuple(columns),
        lambda known: np.stack(np.broadcast_arrays(*known), axis=-1).reshape(-1, len(known)),
        bind,
    )


def shape_of(tensor: relax.Expr) -> list[int]:
    return [int(extent) for extent in tensor.ty.shape]
