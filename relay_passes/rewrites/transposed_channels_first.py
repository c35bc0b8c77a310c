"""Transposed convolutions of channels-first images, for which a zero times an infinity is none.

TVM fills a kernel of dilation with zeros, as it does the image between its pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tvm import ir, relax, te, tirx

from .convolution import CHANNELS_FIRST, TRANSPOSED
from .transposed_convolution import KERNEL
from .weights import shape_of, static_shape


def multiplies_zeros(call: relax.Call) -> bool:
    """Return whether a rule here or TVM's is for a call, and makes products with added zeros."""
    if not isinstance(call.op, ir.Op) or call.op.name not in TRANSPOSED:
        return False
    known = all(static_shape(value) is not None for value in (call, *call.args))
    floats = str(call.args[0].ty.dtype).startswith(("float", "bfloat"))
    return known and floats and is_channels_first(call)


def is_channels_first(call: relax.Call) -> bool:
    attrs, rank = call.attrs, TRANSPOSED[call.op.name]
    wanted = (CHANNELS_FIRST[rank], KERNEL[rank], CHANNELS_FIRST[rank])
    return (attrs.data_layout, attrs.kernel_layout, attrs.out_layout) == wanted


@dataclass(frozen=True)
class _Line:
    """One axis: the image's size, the pixels made, and what is between and before them."""

    size: int
    made: int
    taps: int
    stride: int
    dilation: int
    before: int

    @property
    def lead(self) -> int:
        """The zeros before the first pixel; less than none cut some off."""
        return (self.taps - 1) * self.dilation - self.before


def convolve_apart(x: te.Tensor, weight: te.Tensor, call: relax.Call) -> te.Tensor:
    """Return the convolution of the image with zeros between its pixels, by a finite weight.

    The weight's shape is (I, O // groups, *window).
    """
    lines = [*_lines(call)]

    def pixel(n: ir.Expr, channel: ir.Expr, *places: ir.Expr) -> ir.Expr:
        sources, bounds = [], []
        for place, line in zip(places, lines, strict=True):
            _meet(place - line.lead, line, sources, bounds)
        return _where(bounds, x[(n, channel, *sources)], str(x.dtype))

    apart = [line.made + (line.taps - 1) * line.dilation for line in lines]
    image = te.compute((*x.shape[:2], *apart), pixel, "pixels_apart")

    def term(n: ir.Expr, channel: ir.Expr, places: list, taps: list) -> tuple[ir.Expr, list]:
        steps = zip(places, taps, lines, strict=True)
        return image[(n, channel, *(p + tap * line.dilation for p, tap, line in steps))], []

    return _sum(weight, call, term, turned=True)


def convolve_exactly(x: te.Tensor, weight: te.Tensor, call: relax.Call) -> te.Tensor:
    """Return the same by any weight: no product is with a zero that the image does not have."""
    lines = [*_lines(call)]

    def term(n: ir.Expr, channel: ir.Expr, places: list, taps: list) -> tuple[ir.Expr, list]:
        sources, bounds = [], []
        for place, tap, line in zip(places, taps, lines, strict=True):
            _meet(place + line.before - tap * line.dilation, line, sources, bounds)
        return x[(n, channel, *sources)], bounds

    return _sum(weight, call, term)


def _lines(call: relax.Call) -> Iterator[_Line]:
    (x, weight), attrs = call.args, call.attrs
    shapes = (shape_of(x)[2:], shape_of(call)[2:], shape_of(weight)[2:])
    # Of the padding only what is before the image: what is behind it shows in the result's shape.
    numbers = zip(*shapes, attrs.strides, attrs.dilation, attrs.padding, strict=False)
    return (_Line(*map(int, each)) for each in numbers)


def _meet(place: ir.Expr, line: _Line, sources: list, bounds: list) -> None:
    """Add the pixel at a place of the line with `stride - 1` others behind each, and its bounds."""
    source = tirx.floordiv(place, line.stride)
    bounds += [tirx.floormod(place, line.stride) == 0] if line.stride > 1 else []
    bounds += [source >= 0, source < line.size]
    sources.append(source)


def _sum(weight: te.Tensor, call: relax.Call, term: Callable, turned: bool = False) -> te.Tensor:
    """Return sums of products with `term`s, which `turned` go from the last tap to the first."""
    dtype, (depth, outs, *sizes) = str(call.ty.dtype), shape_of(call.args[1])
    depth //= int(call.attrs.groups)
    taps = [te.reduce_axis((0, size), f"t{number}") for number, size in enumerate(sizes)]
    k = te.reduce_axis((0, depth), "k")

    def point(n: ir.Expr, channel: ir.Expr, *places: ir.Expr) -> ir.Expr:
        source = tirx.floordiv(channel, outs) * depth + k
        left, bounds = term(n, source, places, taps)
        ends = zip(taps, sizes, strict=True)
        window = [size - 1 - tap for tap, size in ends] if turned else taps
        right = weight[(source, tirx.floormod(channel, outs), *window)]
        return te.sum(_where(bounds, left.astype(dtype) * right.astype(dtype), dtype), [k, *taps])

    return te.compute(shape_of(call), point, "convolve_transposed")


def _where(bounds: list[ir.Expr], value: ir.Expr, dtype: str) -> ir.Expr:
    return tirx.if_then_else(tirx.all(*bounds), value, tirx.const(0, dtype)) if bounds else value
