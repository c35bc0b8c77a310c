"""PyTorch's reductions, norms and sums of products that TVM's importer lacks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tvm import relax

from .emitted import WIDER, Emitted, by_name

Pair = tuple[relax.Expr, relax.Expr]


def moments(
    ops: Emitted, x: relax.Expr, axes: Sequence[int] | None, correction: float
) -> tuple[relax.Expr, relax.Expr]:
    """Return variance and mean along some axes, which stay; squares are of what the mean leaves."""
    shape = [int(extent) for extent in x.ty.shape.values]
    axes = sorted(a % len(shape) for a in axes) if axes else list(range(len(shape)))
    count = math.prod(shape[axis] for axis in axes)
    mean = ops.mean(x, axes, keepdims=True)
    apart = ops.subtract(x, mean)
    # The mean and not the sum, which need not fit a float16.
    squares = ops.mean(ops.multiply(apart, apart), axes, keepdims=True)
    with np.errstate(divide="ignore"):
        share = np.divide(count, max(count - correction, 0.0))
    return ops.multiply(squares, ops.const(share, str(x.ty.dtype))), mean


def var_mean(
    ops: Emitted, x: relax.Expr, dim: Sequence[int] | None, correction: float | None, keepdim: bool
) -> Pair:
    both = moments(ops, x, dim, 1 if correction is None else correction)
    return tuple(ops.reshape(each, [*ops.known.shape]) for each in both)


def layer_norm(
    ops: Emitted,
    x: relax.Expr,
    normalized_shape: Sequence[int],
    weight: relax.Expr | None,
    bias: relax.Expr | None,
    eps: float,
) -> tuple[relax.Expr, ...]:
    """Return what TVM's converter makes, and the mean and the scale if they are read."""
    made = ops.importer._native_layer_norm(ops.node)
    if not (ops.is_read(1) or ops.is_read(2)):
        return (made,)
    rank = x.ty.ndim
    variance, mean = moments(ops, x, range(rank - len(normalized_shape), rank), 0)
    eps_of = ops.const(eps, str(x.ty.dtype))
    return made, mean, ops.rsqrt(ops.add(variance, eps_of))


def minimum_along(ops: Emitted, x: relax.Expr, dim: int, keepdim: bool) -> Pair:
    return _extremum(ops, x, dim, keepdim, "min")


def maximum_along(ops: Emitted, x: relax.Expr, dim: int, keepdim: bool) -> Pair:
    return _extremum(ops, x, dim, keepdim, "max")


def _extremum(ops: Emitted, x: relax.Expr, dim: int, keepdim: bool, kind: str) -> Pair:
    """Return the least or largest along an axis and the first place of it, or of the first NaN."""
    if str(x.ty.dtype) == "bool":
        values, places = _extremum(ops, ops.cast(x, "int8"), dim, keepdim, kind)
        return ops.cast(values, "bool"), places
    values = getattr(ops, kind)(x, dim, keepdims=keepdim)
    places = getattr(ops, f"arg{kind}")(x, dim, keepdims=keepdim)
    return values, _or_first_nan(ops, x, dim, keepdim, values, places)


def _or_first_nan(
    ops: Emitted, x: relax.Expr, dim: int, keepdim: bool, values: relax.Expr, places: relax.Expr
) -> relax.Expr:
    """Return places, those of NaN where they are NaN's."""
    if not str(x.ty.dtype).startswith(("float", "bfloat")):
        return places
    first = ops.argmax(ops.cast(ops.isnan(x), "int8"), dim, keepdims=keepdim)
    return ops.where(ops.isnan(values), first, places)


def least_place(ops: Emitted, x: relax.Expr, dim: int | None, keepdim: bool) -> relax.Expr:
    return _place(ops, x, dim, keepdim, "min")


def largest_place(ops: Emitted, x: relax.Expr, dim: int | None, keepdim: bool) -> relax.Expr:
    return _place(ops, x, dim, keepdim, "max")


def _place(ops: Emitted, x: relax.Expr, dim: int | None, keepdim: bool, kind: str) -> relax.Expr:
    if dim is not None:
        return _extremum(ops, x, dim, keepdim, kind)[1]
    place = _extremum(ops, ops.reshape(x, [-1]), 0, False, kind)[1]
    return ops.reshape(place, [*ops.known.shape])


def median_along(ops: Emitted, x: relax.Expr, dim: int, keepdim: bool) -> Pair:
    """rewrite: median(x) -> kthvalue(x, (n + 1) // 2), NaN if any is"""
    count = int(x.ty.shape.values[dim])
    values, places = kth_value(ops, x, (count + 1) // 2, dim, keepdim)
    largest = ops.max(x, dim, keepdims=keepdim)
    places = _or_first_nan(ops, x, dim, keepdim, largest, places)
    return ops.where(ops.isnan(largest), largest, values), places


def median(ops: Emitted, x: relax.Expr) -> relax.Expr:
    return median_along(ops, ops.reshape(x, [-1]), 0, False)[0]


def kth_value(ops: Emitted, x: relax.Expr, k: int, dim: int, keepdim: bool) -> Pair:
    """rewrite: kthvalue(x, k) -> the last of topk(x, k, largest=False)"""
    made = ops.topk(x, k, dim, "both", False, "int64")
    at = ops.const([k - 1] if keepdim else k - 1, "int64")
    return tuple(ops.take(ops.item(made, n), at, dim) for n in range(2))


def sort(ops: Emitted, x: relax.Expr, stable: bool | None, dim: int, descending: bool) -> Pair:
    places = ops.argsort(x, dim, descending, dtype="int64")
    return ops.gather_elements(x, places, axis=dim), places


def norm(
    ops: Emitted, x: relax.Expr, p: float, axes: Sequence[int] | None, keepdims: bool = False
) -> relax.Expr:
    """Return the p-norm along some axes, None: all. Halves are added up in float32."""
    given = str(x.ty.dtype)
    dtype = WIDER.get(given, given)
    made = _norm_of(ops, ops.cast(x, dtype), p, axes, keepdims)
    return ops.cast(made, given)


def _norm_of(
    ops: Emitted, x: relax.Expr, p: float, axes: Sequence[int] | None, keepdims: bool
) -> relax.Expr:
    size, dtype = ops.abs(x), str(x.ty.dtype)
    if p == math.inf:
        return ops.max(size, axes, keepdims=keepdims)
    if p == -math.inf:
        return ops.min(size, axes, keepdims=keepdims)
    if p == 0:
        some = ops.cast(ops.not_equal(size, ops.const(0, dtype)), dtype)
        return ops.sum(some, axes, keepdims=keepdims)
    if p == 1:
        return ops.sum(size, axes, keepdims=keepdims)
    if p == 2:
        return ops.sqrt(ops.sum(ops.multiply(x, x), axes, keepdims=keepdims))
    powers = ops.sum(ops.power(size, ops.const(p, dtype)), axes, keepdims=keepdims)
    return ops.power(powers, ops.const(1 / p, dtype))


def vector_norm(
    ops: Emitted,
    x: relax.Expr,
    ord: float,
    dim: Sequence[int] | None,
    keepdim: bool,
    dtype: object,
) -> relax.Expr:
    return norm(ops, ops.cast(x), float(ord), list(dim) if dim else None, keepdim)


def dist(ops: Emitted, x: relax.Expr, other: relax.Expr, p: float) -> relax.Expr:
    return norm(ops, ops.subtract(ops.cast(x), ops.cast(other)), float(p), None)


def cdist(
    ops: Emitted, x1: relax.Expr, x2: relax.Expr, p: float, compute_mode: int | None
) -> relax.Expr:
    """rewrite: cdist(x[.., m, d], y[.., n, d]) -> norm(x[.., m, 1, d] - y[.., 1, n, d])"""
    apart = ops.subtract(ops.expand_dims(x1, -2), ops.expand_dims(x2, -3))
    return norm(ops, apart, float(p), [-1])


def pdist(ops: Emitted, x: relax.Expr, p: float) -> relax.Expr:
    """rewrite: pdist(x) -> norm(x[i] - x[j])   # all i < j"""
    above = np.triu_indices(int(x.ty.shape.values[0]), 1)
    one, other = (ops.take(x, ops.const(rows, "int64"), 0) for rows in above)
    return norm(ops, ops.subtract(one, other), float(p), [-1])


def product_along(
    ops: Emitted, x: relax.Expr, dim: int, keepdim: bool, dtype: object
) -> relax.Expr:
    return ops.prod(ops.cast(x), dim, keepdims=keepdim)


def any_along(ops: Emitted, x: relax.Expr, dim: object = None, keepdim: bool = False) -> relax.Expr:
    """rewrite: any(x, axes) -> max(x != 0, axes)"""
    given = str(x.ty.dtype)
    some = x if given == "bool" else ops.not_equal(x, ops.const(0, given))
    axes = [dim] if isinstance(dim, int) else dim
    largest = ops.max(ops.cast(some, "int8"), axes or None, keepdims=keepdim)
    return ops.cast(largest, "bool")


def add_mv(
    ops: Emitted, x: relax.Expr, mat: relax.Expr, vec: relax.Expr, beta: float, alpha: float
) -> relax.Expr:
    return _scaled_sum(ops, x, beta, ops.matmul(mat, vec), alpha)


def add_bmm(
    ops: Emitted, x: relax.Expr, batch1: relax.Expr, batch2: relax.Expr, beta: float, alpha: float
) -> relax.Expr:
    """rewrite: addbmm(x, a, b) -> beta * x + alpha * sum(a @ b, 0)"""
    return _scaled_sum(ops, x, beta, ops.sum(ops.matmul(batch1, batch2), 0), alpha)


def _scaled_sum(
    ops: Emitted, x: relax.Expr, beta: float, made: relax.Expr, alpha: float
) -> relax.Expr:
    made = made if alpha == 1 else ops.multiply(made, ops.const(alpha))
    if beta == 0:  # what x has, NaN too, does not count
        return made
    return ops.add(x if beta == 1 else ops.multiply(x, ops.const(beta)), made)


def trilinear(
    ops: Emitted,
    i1: relax.Expr,
    i2: relax.Expr,
    i3: relax.Expr,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int,
) -> relax.Expr:
    """rewrite: _trilinear(a, b, c) -> sum(expand_dims(a) * expand_dims(b) * expand_dims(c))"""
    one, two, three = (
        ops.expand_dims(each, list(axes)) if axes else each
        for each, axes in ((i1, expand1), (i2, expand2), (i3, expand3))
    )
    product = ops.multiply(ops.multiply(one, two), three)
    return ops.sum(product, list(sumdim)) if sumdim else product


REDUCTIONS = {
    "var_mean.correction": by_name(var_mean),
    "native_layer_norm.default": by_name(layer_norm),
    "min.dim": by_name(minimum_along),
    "max.dim": by_name(maximum_along),
    "argmin.default": by_name(least_place),
    "argmax.default": by_name(largest_place),
    "median.dim": by_name(median_along),
    "median.default": by_name(median),
    "kthvalue.default": by_name(kth_value),
    "sort.stable": by_name(sort),
    "linalg_vector_norm.default": by_name(vector_norm),
    "dist.default": by_name(dist),
    "_cdist_forward.default": by_name(cdist),
    "_pdist_forward.default": by_name(pdist),
    "prod.dim_int": by_name(product_along),
    "any.default": by_name(any_along),
    "any.dim": by_name(any_along),
    "any.dims": by_name(any_along),
    "addmv.default": by_name(add_mv),
    "addbmm.default": by_name(add_bmm),
    "_trilinear.default": by_name(trilinear),
}
