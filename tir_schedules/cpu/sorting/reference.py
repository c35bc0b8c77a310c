"""A sort as TVM's runtime does it, of keys: what `verify` compares our kernel with."""

from __future__ import annotations

from collections.abc import Iterator

from tvm import te, tirx, topi

from ...sorting import Sort
from .keys import key


def reference(sort: Sort) -> tirx.PrimFunc:
    """Return a PrimFunc of the same operand and results."""
    x = te.placeholder(sort.shape, sort.dtype, "x")
    return te.create_prim_func([x, *_results(sort, x)])


def _results(sort: Sort, x: te.Tensor) -> Iterator[te.Tensor]:
    keys = te.compute(sort.shape, lambda *at: key(x(*at), sort.descending), "keys")
    places = topi.topk(keys, sort.count, sort.axis, "indices", is_ascend=True, dtype="int32")
    if sort.values:
        shape, axis = sort.result_shape, sort.axis
        yield te.compute(shape, lambda *at: x(*at[:axis], places(*at), *at[axis + 1 :]), "values")
    if sort.places:
        yield topi.cast(places, sort.places)
