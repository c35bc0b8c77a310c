"""Convolutions as products of pixels and packed weights, channels last.

With channels last the lanes of a register tile are output channels whatever the width of the image,
and the rows are pixels: the direct convolution of oneDNN with a blocked weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm import relax, te, tirx

from tir_schedules.analysis.limits import LIMITS

SPATIAL = {"relax.nn.conv1d": 1, "relax.nn.conv2d": 2, "relax.nn.conv3d": 3}
TRANSPOSED = {f"relax.nn.conv{rank}d_transpose": rank for rank in (1, 2, 3)}
CHANNELS_FIRST = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
CHANNELS_LAST = {1: "NWC", 2: "NHWC", 3: "NDHWC"}
KERNEL = {1: "OIW", 2: "OIHW", 3: "OIDHW"}


@dataclass(frozen=True)
class Window:
    """The spatial part of a convolution: a number for each axis, two for padding."""

    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


def is_depthwise(call: relax.Call) -> bool:
    """Return whether each channel of the image is a group; the kernel is in OI, transposed IO."""
    groups, (first, second, *_) = int(call.attrs.groups), map(int, call.args[1].ty.shape.values)
    return (first // groups if call.op.name in TRANSPOSED else second) == 1 < groups


def keeps_dtype(call: relax.Call) -> bool:
    """Return whether the result is of the image's dtype, asked for (as by torch) or not."""
    return call.ty.dtype == call.args[0].ty.dtype


def window(call: relax.Call) -> Window | None:
    """Return the window of a channels-last convolution with a kernel in OI order, or None."""
    rank, attrs = SPATIAL[call.op.name], call.attrs
    if attrs.data_layout != CHANNELS_LAST[rank] or attrs.kernel_layout != KERNEL[rank]:
        return None
    if attrs.out_layout not in ("", attrs.data_layout) or not keeps_dtype(call):
        return None
    padding = tuple(map(int, attrs.padding))
    strides, dilation = (tuple(map(int, a)) for a in (attrs.strides, attrs.dilation))
    return Window(strides, dilation, padding[:rank], padding[rank:])


def leaves_padding_out(x: relax.Expr, sizes: Sequence[int], at: Window, few: int) -> bool:
    """Return whether loops over the taps leave the padding out themselves.

    Not of many taps or of one, and a picture, of less than `few` channels, is laid out anew anyhow.
    """
    widths = zip(at.before, at.after, strict=True)
    taps = [size for size, width in zip(sizes, widths, strict=True) if any(width)]
    picture = int(x.ty.shape.values[-1]) < few
    return not taps or (not picture and min(taps) > 1 and max(taps) <= LIMITS.most_taps)


def padded(builder: relax.BlockBuilder, x: relax.Expr, at: Window) -> tuple[relax.Expr, Window]:
    """Return the image with its padding, and the window to convolve it by."""
    widths = list(zip(at.before, at.after, strict=True))
    if not any(map(any, widths)):
        return x, at
    image = builder.emit(relax.op.nn.pad(x, [0, 0, *(n for pair in widths for n in pair), 0, 0]))
    none = (0,) * len(widths)
    return image, replace(at, before=none, after=none)


def convolve(x: te.Tensor, packed: te.Tensor, at: Window, groups: int = 1) -> te.Tensor:
    """Return the convolution of a channels-last x with a packed kernel.

    The kernel's shape is (O // lanes, *window, I, lanes), I being the channels of a group.
    """
    blocks, *sizes, depth, lanes = (int(n) for n in packed.shape)
    made = blocks * lanes // groups  # by each group
    taps = [te.reduce_axis((0, n), f"w{number}") for number, n in enumerate(sizes)]
    k = te.reduce_axis((0, depth), "k")

    def point(n: te.Var, *index: te.Var) -> te.Expr:
        *pixel, channel = index
        weight = packed[(channel // lanes, *taps, k, channel % lanes)]
        source = channel // made * depth + k
        return te.sum(read(x, n, pixel, taps, source, at, weight), axis=[*taps, k])

    shape = (x.shape[0], *_out_sizes(x, sizes, at), blocks * lanes)
    return te.compute(shape, point, "packed_conv")


def convolve_depthwise(x: te.Tensor, kernel: te.Tensor, at: Window) -> te.Tensor:
    """Return the depthwise convolution of such an x with a kernel of shape (1, *window, C)."""
    _, *sizes, channels = (int(n) for n in kernel.shape)
    taps = [te.reduce_axis((0, n), f"w{number}") for number, n in enumerate(sizes)]

    def point(n: te.Var, *index: te.Var) -> te.Expr:
        *pixel, channel = index
        weight = kernel[(0, *taps, channel)]
        return te.sum(read(x, n, pixel, taps, channel, at, weight), axis=taps)

    return te.compute((x.shape[0], *_out_sizes(x, sizes, at), channels), point, "depthwise_conv")


def read(
    x: te.Tensor,
    n: te.Var,
    pixel: Sequence[te.Expr],
    taps: Sequence[te.IterVar | int],
    channel: te.Expr,
    at: Window,
    times: te.Expr | None = None,
) -> te.Expr:
    """Return the element of the image that a tap meets, `times` a weight; 0 beyond it.

    Beyond it no product is made: that is the same only if the weight is finite.
    """
    steps = zip(pixel, taps, at.strides, at.dilation, at.before, strict=True)
    place = [p * stride + tap * dilation - before for p, tap, stride, dilation, before in steps]
    element = x[(n, *place, channel)]
    element = element if times is None else element * times
    bounds = [p >= 0 for p, before in zip(place, at.before, strict=True) if before]
    sizes = [int(size) for size in x.shape[1:-1]]
    bounds += [p < s for p, s, after in zip(place, sizes, at.after, strict=True) if after]
    if not bounds:
        return element
    return tirx.if_then_else(tirx.all(*bounds), element, tirx.const(0, x.dtype))


def _out_sizes(x: te.Tensor, sizes: list[int], at: Window) -> list[int]:
    edges = (at.before, at.after)
    inside = (sum(each) for each in zip(map(int, x.shape[1:-1]), *edges, strict=True))
    steps = zip(inside, sizes, at.strides, at.dilation, strict=True)
    return [(n - (size - 1) * dilation - 1) // stride + 1 for n, size, stride, dilation in steps]
