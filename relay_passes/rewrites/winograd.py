"""Convolutions by minimal filtering: fewer products for some more additions.

A tile of m x m pixels of a 3x3 convolution takes (m + 2)^2 products a pair of channels instead of
9 m^2: 2.25 times fewer for m = 2, 4 times for m = 4 (Winograd; Lavin & Gray, arXiv 1509.09308).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import te, tirx

from .convolution import Window, convolve, read
from .weights import MODERATE

TAPS = 3
# Which terms of a row are summed first: sums that several rows have in common.
_PARITIES = (0, 1, 0, 1, 0, 1)
_OPPOSITES = (0, 1, 1, 2, 2, 3)


@dataclass(frozen=True)
class Filtering:
    """The matrices of F(m, 3): y = result [(kernel g) * (image d)], d being m + 2 pixels.

    `points` are where the polynomials of Toom and Cook are taken: 0 first, then pairs of opposite
    signs; infinity is one more.
    """

    size: int
    points: tuple[float, ...]

    @property
    def terms(self) -> int:
        return len(self.points) + 1

    @functools.cached_property
    def image(self) -> np.ndarray:
        """The coefficients of the polynomials that are 0 at all points but one."""
        out = np.zeros((self.terms, self.terms))
        for number in range(len(self.points)):
            out[number, :-1] = np.poly(np.delete(self.points, number))[::-1]
        out[-1] = np.poly(self.points)[::-1]
        return np.round(out, 14)  # zeros and ones are exact again

    @functools.cached_property
    def kernel(self) -> np.ndarray:
        points = np.array(self.points)
        apart = points[:, None] - points + np.eye(len(points))
        powers = points[:, None] ** np.arange(TAPS) / apart.prod(axis=1, keepdims=True)
        return np.vstack([powers, np.eye(TAPS)[-1:]])

    @functools.cached_property
    def result(self) -> np.ndarray:
        powers = np.array(self.points) ** np.arange(self.size)[:, None]
        return np.hstack([powers, np.eye(self.size)[:, -1:]])


TWO = Filtering(2, (0.0, 1.0, -1.0))
# Of 30 convolutions of 128 channels these points erred by 1.7e-6 of the largest result, Lavin and
# Gray's (1 and 2) by 8.8e-6, the direct sum by 1e-6. Why: Barabasz et al., arXiv 1803.10986.
FOUR = Filtering(4, (0.0, 0.5**0.5, -(0.5**0.5), 2.0**0.5, -(2.0**0.5)))


def transformed_kernel(weight: np.ndarray, by: Filtering, lanes: int) -> np.ndarray:
    """Return a kernel (O, I, 3, 3) as `convolve_winograd` reads it, rounded once."""
    outs, depth = weight.shape[:2]
    taps = weight.reshape(outs * depth, -1).astype("float64")
    array = taps @ np.kron(by.kernel, by.kernel).T
    array = array.reshape(outs // lanes, lanes, depth, by.terms, by.terms).transpose(3, 4, 0, 2, 1)
    return np.ascontiguousarray(array, weight.dtype)


def transform_kernel(panels: te.Tensor, by: Filtering, lanes: int) -> te.Tensor:
    """Return the same of a kernel in panels, (O // width, 3, 3, I, width), not known yet."""
    blocks, _, _, depth, width = (int(n) for n in panels.shape)
    outs = blocks * width

    def columns(p: te.Var, o: te.Var, k: te.Var, b: te.Var) -> te.Expr:
        def tap(a: int) -> te.Expr:
            return panels[o // width, a, b, k, o % width].astype("float64")

        return _transformed(by.kernel, _PARITIES, p, tap, "float64")

    column = te.compute((by.terms, outs, depth, TAPS), columns, "transform_columns")

    def rows(p: te.Var, q: te.Var, block: te.Var, k: te.Var, lane: te.Var) -> te.Expr:
        def tap(b: int) -> te.Expr:
            return column[p, block * lanes + lane, k, b]

        return _transformed(by.kernel, _PARITIES, q, tap, "float64").astype(panels.dtype)

    shape = (by.terms, by.terms, outs // lanes, depth, lanes)
    return te.compute(shape, rows, "transform_kernel")


def convolve_winograd(x: te.Tensor, kernel: te.Tensor, at: Window, by: Filtering) -> te.Tensor:
    """Return the convolution of a channels-last x with a transformed kernel.

    The kernel's shape is (terms, terms, O // lanes, I, lanes). `by.size` divides the result's.
    """
    terms, _, blocks, depth, lanes = (int(n) for n in kernel.shape)
    batch, channels = int(x.shape[0]), blocks * lanes
    made = out_sizes(tuple(map(int, x.shape[1:3])), at)
    down, across = (n // by.size for n in made)

    def lines(n: te.Var, i: te.Var, p: te.Var, w: te.Var, c: te.Var) -> te.Expr:
        def line(tap: int) -> te.Expr:
            return read(x, n, [i * by.size, w], [tap, 0], c, at)

        return _transformed(by.image, _PARITIES, p, line, x.dtype)

    lined = te.compute((batch, down, terms, by.size * across + 2, depth), lines, "winograd_lines")

    def tiles(p: te.Var, q: te.Var, n: te.Var, i: te.Var, j: te.Var, c: te.Var) -> te.Expr:
        def pixel(tap: int) -> te.Expr:
            return lined[n, i, p, j * by.size + tap, c]

        return _transformed(by.image, _PARITIES, q, pixel, x.dtype)

    tiled = te.compute((terms, terms, batch, down, across, depth), tiles, "winograd_tiles")
    k = te.reduce_axis((0, depth), "k")

    def products(p: te.Var, q: te.Var, n: te.Var, i: te.Var, j: te.Var, c: te.Var) -> te.Expr:
        return te.sum(tiled[p, q, n, i, j, k] * kernel[p, q, c // lanes, k, c % lanes], axis=k)

    shape = (terms, terms, batch, down, across, channels)
    multiplied = te.compute(shape, products, "winograd_products")

    def columns(n: te.Var, i: te.Var, a: te.Var, j: te.Var, q: te.Var, c: te.Var) -> te.Expr:
        def product(p: int) -> te.Expr:
            return multiplied[p, q, n, i, j, c]

        return _transformed(by.result, _OPPOSITES, a, product, x.dtype)

    column = te.compute(
        (batch, down, by.size, across, terms, channels), columns, "winograd_columns"
    )

    def result(n: te.Var, h: te.Var, w: te.Var, c: te.Var) -> te.Expr:
        def product(q: int) -> te.Expr:
            return column[n, h // by.size, h % by.size, w // by.size, q, c]

        return _transformed(by.result, _OPPOSITES, w % by.size, product, x.dtype)

    return te.compute((batch, *made, channels), result, "convolve_winograd")


def convolve_guarded(
    x: te.Tensor, kernel: te.Tensor, panels: te.Tensor, at: Window, by: Filtering
) -> te.Tensor:
    """Return the same, by the `panels` of the kernel as it was where x has huge numbers.

    One infinity or NaN would make NaN of all pixels of its tile, and what is huge may overflow in
    sums that cancel.
    """
    usual, direct = convolve_winograd(x, kernel, at, by), convolve(x, panels, at)
    axes = [te.reduce_axis((0, int(n)), f"x{number}") for number, n in enumerate(x.shape)]

    def huge(_: te.Var) -> te.Expr:
        inside = tirx.abs(x[tuple(axes)]) <= tirx.const(MODERATE, x.dtype)
        none, one = tirx.const(0, x.dtype), tirx.const(1, x.dtype)
        return te.sum(tirx.Select(inside, none, one), axis=axes)

    found = te.compute((1,), huge, "huge")

    def choice(*index: te.Var) -> te.Expr:
        return tirx.if_then_else(found[0] == tirx.const(0, x.dtype), usual[index], direct[index])

    return te.compute(usual.shape, choice, "convolve_guarded")


def out_sizes(image: tuple[int, int], at: Window) -> list[int]:
    """Return the height and width of the result."""
    edges = zip(image, at.before, at.after, strict=True)
    return [size + before + after - TAPS + 1 for size, before, after in edges]


def _transformed(
    matrix: np.ndarray,
    groups: Sequence[int],
    number: te.Expr,
    term: Callable[[int], te.Expr],
    dtype: str,
) -> te.Expr:
    """Return row `number` of the product of a matrix and the terms."""

    def times(by: float, value: te.Expr) -> te.Expr:
        return value if by == 1.0 else value * tirx.const(float(by), dtype)

    def row(factors: np.ndarray) -> te.Expr:
        members: dict[int, list[int]] = {}
        for index in np.flatnonzero(factors):
            members.setdefault(groups[index], []).append(int(index))
        return _sum(
            times(factors[of[-1]], _sum(times(factors[i] / factors[of[-1]], term(i)) for i in of))
            for of in members.values()
        )

    *others, out = map(row, matrix)
    for index, value in reversed(list(enumerate(others))):
        out = tirx.Select(tirx.EQ(number, tirx.const(index, number.ty.dtype)), value, out)
    return out


def _sum(values: Iterable[te.Expr]) -> te.Expr:
    return functools.reduce(operator.add, values)
