"""PyTorch's complex numbers as Relax: real and imaginary parts along a last axis of two.

Fourier transforms are products with the matrices of the transform, which are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import fx
from tvm import relax
from tvm.relax.frontend.torch.base_fx_graph_translator import BaseFXGraphImporter

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.limits import MOST_TABLE

from .emitted import Emitted
from .pointwise import hypot

REAL = {torch.complex64: "float32", torch.complex128: "float64"}
Parts = tuple[relax.Expr, relax.Expr | None]  # real and imaginary; None: all of it is real


def is_complex(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in REAL


def touches_complex(node: fx.Node) -> bool:
    """Return whether a node reads or makes complex numbers."""
    values = (each.meta.get("val") for each in (node, *node.all_input_nodes))
    return any(map(is_complex, values))


class _Numbers:
    """Emits operators for a node."""

    def __init__(self, node: fx.Node, importer: BaseFXGraphImporter) -> None:
        self.node, self._importer, self.op = node, importer, relax.op
        self.emit: Callable[[relax.Expr], relax.Var] = importer.block_builder.emit

    def parts(self, given: object) -> Parts:
        """Return the parts of an argument: a node, or a number."""
        if not isinstance(given, fx.Node):
            number = complex(given)
            dtype = REAL[self.node.meta["val"].dtype]
            imaginary = relax.const(number.imag, dtype) if number.imag else None
            return relax.const(number.real, dtype), imaginary
        value = self._importer.env[given]
        if not is_complex(given.meta["val"]):
            return value, None
        return tuple(self.emit(relax.op.take(value, relax.const(n, "int64"), axis=-1))
                     for n in (0, 1))  # fmt: skip

    def whole(self, parts: Parts) -> relax.Var:
        """Return complex numbers of their parts, in the shape that PyTorch gave the node."""
        known = self.node.meta["val"]
        shape, dtype = list(known.shape), REAL[known.dtype]
        zero = relax.const(0, dtype)
        lines = []
        for part in parts:
            value = self.emit(relax.op.astype(zero if part is None else part, dtype))
            value = self.emit(relax.op.broadcast_to(value, shape))
            lines.append(self.emit(relax.op.expand_dims(value, -1)))
        return self.emit(relax.op.concat(lines, axis=-1))

    def added(self, one: relax.Expr | None, other: relax.Expr | None) -> relax.Expr | None:
        if one is None or other is None:
            return other if one is None else one
        return self.emit(relax.op.add(one, other))

    def negated(self, one: relax.Expr | None) -> relax.Expr | None:
        return None if one is None else self.emit(relax.op.negative(one))

    def times(self, one: relax.Expr | None, other: relax.Expr | None) -> relax.Expr | None:
        if one is None or other is None:
            return None
        return self.emit(relax.op.multiply(one, other))

    def along(self, x: relax.Expr | None, axis: int, matrix: np.ndarray) -> relax.Expr | None:
        """Return the products of the lines along an axis with a matrix."""
        if x is None:
            return None
        if matrix.size > MOST_TABLE:
            rule = f"a transform of {matrix.shape[0]} numbers has too large a matrix"
            raise StitchError(self.node.name, rule, "cut what it transforms")
        rank = len(x.ty.shape.values)
        order = [*(n for n in range(rank) if n != axis), axis]
        turned = self.emit(relax.op.permute_dims(x, order))
        dtype = str(x.ty.dtype)
        weight = relax.const(matrix.astype(dtype), dtype)
        made = self.emit(relax.op.matmul(turned, weight))
        return self.emit(relax.op.permute_dims(made, [order.index(n) for n in range(rank)]))

    def transformed(
        self, x: Parts, axis: int, columns: int, sign: int, scale: float
    ) -> tuple[relax.Expr, relax.Expr]:
        """Return the first `columns` numbers of a transform along an axis."""
        size = int(x[0].ty.shape.values[axis])
        cosine, sine = (scale * each for each in _waves(size, columns, size))
        sine = sign * sine
        real, imaginary = x
        first = self.added(self.along(real, axis, cosine),
                           self.negated(self.along(imaginary, axis, sine)))  # fmt: skip
        second = self.added(self.along(real, axis, sine), self.along(imaginary, axis, cosine))
        return first, second

    def along_axes(
        self, x: Parts, columns: Mapping[int, int], sign: int, scale: float
    ) -> tuple[Parts, float]:
        """Return the transform along each axis, so many columns of it, and what scale is left."""
        for axis, count in columns.items():
            x, scale = self.transformed(x, axis, count, sign, scale), 1.0
        return x, scale


def _waves(rows: int, columns: int, period: int) -> tuple[np.ndarray, np.ndarray]:
    angle = np.arange(rows)[:, None] * np.arange(columns)[None] % period
    angle = 2 * np.pi / period * angle
    return np.cos(angle), np.sin(angle)


def _scale(norm: int, sizes: Sequence[int]) -> float:
    """Return what PyTorch's code of a normalisation multiplies by."""
    count = math.prod(sizes)
    return {0: 1.0, 1: count**-0.5, 2: 1.0 / count}[norm]


def c2c(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: _fft_c2c(x, axes) -> x @ (cos -+ i sin) along each axis"""
    numbers = _Numbers(node, importer)
    given, dims, norm, forward = node.args
    shape = given.meta["val"].shape
    columns = {axis % len(shape): shape[axis] for axis in dims}
    scale = _scale(norm, [*columns.values()])
    sign = -1 if forward else 1
    return numbers.whole(numbers.along_axes(numbers.parts(given), columns, sign, scale)[0])


def r2c(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: _fft_r2c(x, axes) -> x @ (cos - i sin) along each axis, half of the last"""
    numbers = _Numbers(node, importer)
    given, dims, norm, onesided = node.args
    shape = given.meta["val"].shape
    columns = {axis % len(shape): shape[axis] for axis in reversed(dims)}
    scale = _scale(norm, [*columns.values()])
    if onesided:
        columns[dims[-1] % len(shape)] = shape[dims[-1]] // 2 + 1
    return numbers.whole(numbers.along_axes(numbers.parts(given), columns, -1, scale)[0])


def c2r(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: _fft_c2r(x, axes, n) -> x @ (cos + i sin), the other half in the weights"""
    numbers = _Numbers(node, importer)
    given, dims, norm, size = node.args
    shape = node.meta["val"].shape
    columns = {axis % len(shape): shape[axis] for axis in dims[:-1]}
    axis = dims[-1] % len(shape)
    scale = _scale(norm, [*columns.values(), shape[axis]])
    parts, scale = numbers.along_axes(numbers.parts(given), columns, 1, scale)
    count = given.meta["val"].shape[axis]
    twice = np.full((count, 1), 2.0 * scale)
    twice[0] = scale
    if size % 2 == 0 and count > size // 2:
        twice[size // 2] = scale
    cosine, sine = (twice * each for each in _waves(count, size, size))
    real, imaginary = parts
    return numbers.added(
        numbers.along(real, axis, cosine), numbers.negated(numbers.along(imaginary, axis, sine))
    )


def same(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: view_as_real(x) -> x"""
    return importer.env[node.args[0]]


def part(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: imag(x) -> x[..., 1]"""
    return _Numbers(node, importer).parts(node.args[0])[node.target is torch.ops.aten.imag.default]


def made_complex(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: complex(a, b) -> (a, b); x.to(complex64) -> (x, 0)"""
    numbers = _Numbers(node, importer)
    (real, imaginary), *others = map(numbers.parts, node.args)
    return numbers.whole((real, others[0][0] if others else imaginary))


def polar(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: polar(r, a) -> (r * cos(a), r * sin(a))"""
    numbers = _Numbers(node, importer)
    radius, angle = (importer.env[each] for each in node.args[:2])
    turned = (numbers.emit(op(angle)) for op in (relax.op.cos, relax.op.sin))
    return numbers.whole(tuple(numbers.times(radius, each) for each in turned))


def shaped(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: x.view(shape) -> reshape(x, (*shape, 2))"""
    shape = [*node.meta["val"].shape, 2]
    return importer.block_builder.emit(relax.op.reshape(importer.env[node.args[0]], shape))


def permuted(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    rank = len(node.meta["val"].shape)
    order = [*(axis % rank for axis in node.args[1]), rank]
    return importer.block_builder.emit(relax.op.permute_dims(importer.env[node.args[0]], order))


def sum_of(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    numbers = _Numbers(node, importer)
    one, other = map(numbers.parts, node.args[:2])
    alpha = node.kwargs.get("alpha", 1)
    if alpha != 1:
        raise StitchError(node.name, f"complex numbers are added {alpha} times", "multiply first")
    if node.target is torch.ops.aten.sub.Tensor:
        other = tuple(map(numbers.negated, other))
    return numbers.whole(tuple(map(numbers.added, one, other)))


def product(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: a * b -> (re a * re b - im a * im b, re a * im b + im a * re b)"""
    numbers = _Numbers(node, importer)
    (a, b), (c, d) = map(numbers.parts, node.args[:2])
    real = numbers.added(numbers.times(a, c), numbers.negated(numbers.times(b, d)))
    return numbers.whole((real, numbers.added(numbers.times(a, d), numbers.times(b, c))))


def negative(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    return importer.block_builder.emit(relax.op.negative(importer.env[node.args[0]]))


def conjugate(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    numbers = _Numbers(node, importer)
    real, imaginary = numbers.parts(node.args[0])
    return numbers.whole((real, numbers.negated(imaginary)))


def magnitude(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    return hypot(Emitted(node, importer), *_Numbers(node, importer).parts(node.args[0]))


def angle(node: fx.Node, importer: BaseFXGraphImporter) -> relax.Var:
    """rewrite: angle(x) -> atan2(im x, re x)"""
    numbers = _Numbers(node, importer)
    real, imaginary = numbers.parts(node.args[0])
    return numbers.emit(relax.op.atan2(imaginary, real))


# The imaginary part of a conjugate, which PyTorch has yet to negate.
OF_CONJUGATES = {"_neg_view.default": negative}
# For nodes that read or make complex numbers alone; of others these names mean what they did.
SPECTRA = {
    "_fft_c2c.default": c2c,
    "_fft_r2c.default": r2c,
    "_fft_c2r.default": c2r,
    "view_as_real.default": same,
    "view_as_complex.default": same,
    "real.default": part,
    "imag.default": part,
    "complex.default": made_complex,
    "polar.default": polar,
    "_to_copy.default": made_complex,
    **dict.fromkeys(("view.default", "reshape.default", "_unsafe_view.default",
                     "unsqueeze.default", "squeeze.dims", "clone.default"), shaped),
    "permute.default": permuted,
    "add.Tensor": sum_of,
    "sub.Tensor": sum_of,
    "mul.Tensor": product,
    "neg.default": negative,
    "_conj.default": conjugate,
    "conj_physical.default": conjugate,
    "abs.default": magnitude,
    "angle.default": angle,
}  # fmt: skip
