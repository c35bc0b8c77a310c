"""Convolutions to a few channels: taps share the lanes with them, and sums follow (col2im).

Lanes of a register tile are channels of the result: of three, five of eight lanes are idle. As one
product of matrices, whose columns are the channels of a tap after each other, nearly none is; then
each pixel sums what those around it give to it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from tvm import relax, te, tirx

from tir_schedules.analysis.limits import LIMITS

from ..policy import POLICY, LayoutPolicy
from .convolution import Window
from .transposed_convolution import Gather
from .weights import shape_of


@dataclass(frozen=True)
class Taps:
    """One axis: pixel p of `made` meets, for each `turn` of `terms`, a source and one of `taps`.

    Source `(p + before) // stride - apart * turn`, tap `(p + before) % stride + stride * turn`,
    counted from the last one if `mirrored`.
    """

    taps: int
    stride: int
    apart: int
    before: int
    made: int
    mirrored: bool

    @property
    def terms(self) -> int:
        return -(-self.taps // self.stride)


def taps_of_gathers(at: Sequence[Gather]) -> tuple[Taps, ...]:
    """Return the axes of a transposed convolution."""
    return tuple(Taps(a.taps, a.stride, a.apart, a.before, a.made, False) for a in at)


def taps_of_window(call: relax.Call, at: Window) -> tuple[Taps, ...] | None:
    """Return the axes of a channels-last convolution, None if it leaves pixels out."""
    if set(at.strides) != {1}:
        return None
    made, sizes = shape_of(call)[1:-1], shape_of(call.args[1])[2:]
    axes = zip(sizes, at.dilation, at.before, made, strict=True)
    return tuple(Taps(k, 1, step, (k - 1) * step - pad, n, True) for k, step, pad, n in axes)


def shares_lanes(
    axes: Sequence[Taps], depth: int, outs: int, policy: LayoutPolicy = POLICY.layout
) -> bool:
    """Return whether channels alone fill the lanes so badly that the sums cost less."""
    taps, terms = (math.prod(each) for each in zip(*((a.taps, a.terms) for a in axes), strict=True))
    if (
        outs >= LIMITS.least_lanes
        or terms > policy.summed_taps
        or taps * outs > policy.growth * depth
    ):
        return False
    together = max(taps * outs, LIMITS.least_lanes) * depth + taps * outs * policy.added_lanes
    return together < taps * LIMITS.least_lanes * depth


def col2im(images: te.Tensor, outs: int, axes: Sequence[Taps]) -> te.Tensor:
    """Return the sums of what pixels give to those of the result: (N, *image, taps * O) given."""
    sizes = [int(n) for n in images.shape[1:-1]]

    def term(n: te.Var, pixel: Sequence[te.Var], channel: te.Var, turns: Sequence[int]) -> te.Expr:
        bounds, sources, column = [], [], 0
        for p, turn, size, axis in zip(pixel, turns, sizes, axes, strict=True):
            place, behind = (p + axis.before) // axis.stride, axis.apart * turn
            tap = (p + axis.before) % axis.stride + axis.stride * turn
            bounds += [place >= behind] if axis.before // axis.stride < behind else []
            last = (axis.made - 1 + axis.before) // axis.stride
            bounds += [place < size + behind] if last >= size + behind else []
            bounds += [tap < axis.taps] if axis.stride * (turn + 1) > axis.taps else []
            sources.append(place - behind)
            column = column * axis.taps + (axis.taps - 1 - tap if axis.mirrored else tap)
        element = images[(n, *sources, column * outs + channel)]
        if not bounds:
            return element
        return tirx.if_then_else(tirx.all(*bounds), element, tirx.const(0, images.dtype))

    def point(n: te.Var, *index: te.Var) -> te.Expr:
        *pixel, channel = index
        turns = itertools.product(*(range(axis.terms) for axis in axes))
        first, *others = (term(n, pixel, channel, each) for each in turns)
        return sum(others, first)

    return te.compute((images.shape[0], *(axis.made for axis in axes), outs), point, "col2im")
