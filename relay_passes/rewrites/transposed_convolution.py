"""Transposed convolutions as gathers: a pixel of the result sums what others would scatter to it.

Of the pixels `j * stride + e` of a line each e meets taps of its own, a stride apart: as many dense
convolutions of the image, interleaved where they are written. No product is with a zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm import relax, te, tirx

from .convolution import TRANSPOSED, keeps_dtype
from .weights import pack_alike, shape_of

KERNEL = {1: "IOW", 2: "IOHW", 3: "IODHW"}


@dataclass(frozen=True)
class Gather:
    """One axis of a transposed convolution: `made` pixels, of `places` that strides make whole.

    Pixel `j * stride + e` meets, for each v of `steps`, source `j - behind + apart * v` and of
    `taps` tap `e + last - stride * v`.
    """

    stride: int
    taps: int
    steps: int
    last: int
    behind: int
    apart: int
    made: int

    @property
    def places(self) -> int:
        return -(-self.made // self.stride)

    @property
    def before(self) -> int:
        """The pixels that padding leaves out before the first."""
        if self.stride == 1:
            return (self.taps - 1) * self.apart - self.behind
        return self.last - self.stride * self.behind


def refuse_transposed(call: relax.Call, layouts: Mapping[int, str]) -> str | None:
    """Return why a transposed convolution of an image in a layout is not gathers, or None."""
    attrs, rank = call.attrs, TRANSPOSED[call.op.name]
    if attrs.data_layout != layouts[rank] or attrs.kernel_layout != KERNEL[rank]:
        return f"layouts {attrs.data_layout} and {attrs.kernel_layout}"
    if attrs.out_layout not in ("", attrs.data_layout) or not keeps_dtype(call):
        return f"a result as {attrs.out_layout} of {attrs.out_dtype}"
    if not pack_alike(*call.args):
        return "a dtype or shape that does not pack"
    steps = zip(map(int, attrs.strides), map(int, attrs.dilation), strict=True)
    if any(stride > 1 and dilation > 1 for stride, dilation in steps):
        return "strides and dilation on one axis"
    return None


def gathers(call: relax.Call) -> tuple[Gather, ...]:
    """Return the axes of a channels-last transposed convolution that is not refused."""
    attrs, rank = call.attrs, TRANSPOSED[call.op.name]
    made, taps = shape_of(call)[1:-1], shape_of(call.args[1])[2:]
    before = [int(n) for n in attrs.padding][:rank]
    strides, dilation = (tuple(map(int, a)) for a in (attrs.strides, attrs.dilation))
    axes = zip(strides, dilation, taps, before, made, strict=True)
    return tuple(_gather(*axis) for axis in axes)


def _gather(stride: int, dilation: int, taps: int, before: int, made: int) -> Gather:
    if stride == 1:
        return Gather(1, taps, taps, taps - 1, (taps - 1) * dilation - before, dilation, made)
    ahead, behind = (stride - 1 + before) // stride, (taps - 1 - before) // stride
    return Gather(stride, taps, ahead + behind + 1, before + stride * behind, behind, 1, made)


def convolve_transposed(x: te.Tensor, packed: te.Tensor, at: Sequence[Gather]) -> te.Tensor:
    """Return the transposed convolution of a channels-last x, each line of whole strides.

    The kernel's shape is (groups, O // lanes, *window, I, lanes), O and I being a group's channels.
    """
    groups, blocks, *_, depth, lanes = (int(n) for n in packed.shape)
    steps = [te.reduce_axis((0, axis.steps), f"v{number}") for number, axis in enumerate(at)]
    k = te.reduce_axis((0, depth), "k")
    sizes = [int(n) for n in x.shape[1:-1]]

    def point(n: te.Var, *index: te.Var) -> te.Expr:
        *pixel, channel = index
        group, out = channel // (blocks * lanes), channel % (blocks * lanes)
        bounds, sources, taps = [], [], []
        for p, v, size, axis in zip(pixel, steps, sizes, at, strict=True):
            source = p // axis.stride - axis.behind + axis.apart * v
            bounds += [source >= 0] if axis.behind > 0 else []
            reach = axis.places + axis.apart * (axis.steps - 1) - axis.behind
            bounds += [source < size] if reach > size else []
            sources.append(source)
            tap = p % axis.stride + axis.last - axis.stride * v
            bounds += [tap >= 0] if axis.last < axis.stride * (axis.steps - 1) else []
            bounds += [tap < axis.taps] if axis.last + axis.stride > axis.taps else []
            taps.append(tap)
        weight = packed[(group, out // lanes, *taps, k, out % lanes)]
        term = x[(n, *sources, group * depth + k)] * weight
        if bounds:
            term = tirx.if_then_else(tirx.all(*bounds), term, tirx.const(0, x.dtype))
        return te.sum(term, axis=[*steps, k])

    made = [axis.places * axis.stride for axis in at]
    shape = (x.shape[0], *made, groups * blocks * lanes)
    return te.compute(shape, point, "convolve_transposed")
