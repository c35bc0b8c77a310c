"""Convolutions as products of pixels and packed weights, channels last.

With channels last the lanes of a register tile are output channels whatever the width of the image,
and the rows are pixels: the direct convolution of oneDNN with a blocked weight.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import relax, te

SPATIAL = {"relax.nn.conv1d": 1, "relax.nn.conv2d": 2, "relax.nn.conv3d": 3}
CHANNELS_LAST = {1: "NWC", 2: "NHWC", 3: "NDHWC"}
KERNEL = {1: "OIW", 2: "OIHW", 3: "OIDHW"}


@dataclass(frozen=True)
class Window:
    """The spatial part of a convolution: a number for each axis, two for padding."""

    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


def window(call: relax.Call) -> Window | None:
    """Return the window of a channels-last convolution with a kernel in OI order, or None."""
    rank, attrs = SPATIAL[call.op.name], call.attrs
    if attrs.data_layout != CHANNELS_LAST[rank] or attrs.kernel_layout != KERNEL[rank]:
        return None
    if attrs.out_layout not in ("", attrs.data_layout):
        return None
    padding = tuple(map(int, attrs.padding))
    strides, dilation = (tuple(map(int, a)) for a in (attrs.strides, attrs.dilation))
    return Window(strides, dilation, padding[:rank], padding[rank:])


def padded(builder: relax.BlockBuilder, x: relax.Expr, at: Window) -> relax.Expr:
    """Return x with its spatial axes padded by zeros, as a variable of its own."""
    if not any((*at.before, *at.after)):
        return x
    widths = [0, 0, *(n for pair in zip(at.before, at.after, strict=True) for n in pair), 0, 0]
    return builder.emit(relax.op.nn.pad(x, widths))


def convolve(x: te.Tensor, packed: te.Tensor, at: Window) -> te.Tensor:
    """Return the convolution of a padded channels-last x with a packed kernel.

    The kernel's shape is (O // lanes, *window, I, lanes).
    """
    blocks, *sizes, depth, lanes = (int(n) for n in packed.shape)
    taps = [te.reduce_axis((0, n), f"w{number}") for number, n in enumerate(sizes)]
    k = te.reduce_axis((0, depth), "k")

    def point(n: te.Var, *index: te.Var) -> te.Expr:
        *pixel, channel = index
        weight = packed[(channel // lanes, *taps, k, channel % lanes)]
        return te.sum(x[(n, *_read(pixel, taps, at), k)] * weight, axis=[*taps, k])

    shape = (x.shape[0], *_out_sizes(x, sizes, at), blocks * lanes)
    return te.compute(shape, point, "packed_conv")


def convolve_depthwise(x: te.Tensor, kernel: te.Tensor, at: Window) -> te.Tensor:
    """Return the depthwise convolution of such an x with a kernel of shape (1, *window, C)."""
    _, *sizes, channels = (int(n) for n in kernel.shape)
    taps = [te.reduce_axis((0, n), f"w{number}") for number, n in enumerate(sizes)]

    def point(n: te.Var, *index: te.Var) -> te.Expr:
        *pixel, channel = index
        weight = kernel[(0, *taps, channel)]
        return te.sum(x[(n, *_read(pixel, taps, at), channel)] * weight, axis=taps)

    return te.compute((x.shape[0], *_out_sizes(x, sizes, at), channels), point, "depthwise_conv")


def _read(pixel: list[te.Var], taps: list[te.IterVar], at: Window) -> list[te.Expr]:
    steps = zip(pixel, taps, at.strides, at.dilation, strict=True)
    return [p * stride + tap * dilation for p, tap, stride, dilation in steps]


def _out_sizes(x: te.Tensor, sizes: list[int], at: Window) -> list[int]:
    inside = (int(n) for n in x.shape[1:-1])
    steps = zip(inside, sizes, at.strides, at.dilation, strict=True)
    return [(n - (size - 1) * dilation - 1) // stride + 1 for n, size, stride, dilation in steps]
