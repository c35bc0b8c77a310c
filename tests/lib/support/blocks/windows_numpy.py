"""Convolutions and poolings in NumPy, of any number of space axes, from ONNX's definitions."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Window:
    """Sizes of a sliding window by space axis; `pads` are (before, after) of each."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]

    @property
    def spans(self) -> tuple[int, ...]:
        """Return the extent of the dilated kernel."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def attributes(self) -> dict[str, list[int]]:
        """Return the window as ONNX writes it."""
        before, after = zip(*self.pads, strict=True)
        return {
            "kernel_shape": list(self.kernel),
            "strides": list(self.strides),
            "dilations": list(self.dilations),
            "pads": [*before, *after],
        }

    def out(self, space: tuple[int, ...], ceil: bool = False) -> tuple[int, ...]:
        """Return how often the window fits in each axis."""
        extents = []
        for extent, span, stride, pad in zip(
            space, self.spans, self.strides, self.pads, strict=True
        ):
            room = extent + sum(pad) - span
            extents.append((-(-room // stride) if ceil else room // stride) + 1)
        return tuple(extents)

    def taps(self):
        return itertools.product(*(range(k) for k in self.kernel))

    def at(self, tap: tuple[int, ...], out: tuple[int, ...]) -> tuple[slice, ...]:
        """Return where a tap reads in the padded space."""
        starts = [t * d for t, d in zip(tap, self.dilations, strict=True)]
        return tuple(
            slice(start, start + (count - 1) * stride + 1, stride)
            for start, count, stride in zip(starts, out, self.strides, strict=True)
        )


def convolve(x: np.ndarray, w: np.ndarray, window: Window, groups: int) -> np.ndarray:
    """x (batch, channels, *space), w (outputs, channels / groups, *kernel)."""
    batch, space = x.shape[0], x.shape[2:]
    out = window.out(space)
    padded = np.pad(x, ((0, 0), (0, 0), *window.pads))
    grouped = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    total = np.zeros((batch, groups, w.shape[0] // groups, math.prod(out)), x.dtype)
    for tap in window.taps():
        read = padded[(..., *window.at(tap, out))].reshape(batch, groups, w.shape[1], -1)
        total += grouped[(..., *tap)] @ read
    return total.reshape(batch, w.shape[0], *out)


def convolve_transposed(
    x: np.ndarray, w: np.ndarray, window: Window, groups: int, extra: tuple[int, ...]
) -> np.ndarray:
    """x (batch, channels, *space), w (channels, outputs / groups, *kernel); `extra`: rows more."""
    batch, channels, space = x.shape[0], x.shape[1], x.shape[2:]
    full = [
        (extent - 1) * stride + span
        for extent, stride, span in zip(space, window.strides, window.spans, strict=True)
    ]
    outputs = w.shape[1] * groups
    room = [max(f, f - a + e) for f, (_, a), e in zip(full, window.pads, extra, strict=True)]
    total = np.zeros((batch, outputs, *room), x.dtype)
    turned = w.reshape(groups, channels // groups, *w.shape[1:]).swapaxes(1, 2)
    flat = x.reshape(batch, groups, channels // groups, -1)
    for tap in window.taps():
        written = (turned[(..., *tap)] @ flat).reshape(batch, outputs, *space)
        total[(..., *window.at(tap, space))] += written
    ends = [
        slice(before, f - after + e)
        for f, (before, after), e in zip(full, window.pads, extra, strict=True)
    ]
    return total[(..., *ends)]


def pool_max(x: np.ndarray, window: Window, ceil: bool) -> np.ndarray:
    padded, out = _padded(x, window, ceil, -np.inf)
    best = np.full((*x.shape[:2], *out), -np.inf, x.dtype)
    for tap in window.taps():
        best = np.maximum(best, padded[(..., *window.at(tap, out))])
    return best


def pool_average(x: np.ndarray, window: Window, ceil: bool, count_pads: bool) -> np.ndarray:
    padded, out = _padded(x, window, ceil, 0.0)
    inside, _ = _padded(np.ones_like(x[:1, :1]), window, ceil, float(count_pads))
    if count_pads:  # what only ceil_mode reaches is no padding
        space = (slice(0, e + sum(p)) for e, p in zip(x.shape[2:], window.pads, strict=True))
        mask = np.zeros_like(inside)
        mask[(..., *space)] = 1.0
        inside = inside * mask
    total, count = 0.0, 0.0
    for tap in window.taps():
        total = total + padded[(..., *window.at(tap, out))]
        count = count + inside[(..., *window.at(tap, out))]
    return total / count


def _padded(x: np.ndarray, window: Window, ceil: bool, fill: float) -> tuple[np.ndarray, tuple]:
    out = window.out(x.shape[2:], ceil)
    widths = [(0, 0), (0, 0)]
    for extent, count, span, stride, (before, after) in zip(
        x.shape[2:], out, window.spans, window.strides, window.pads, strict=True
    ):
        reach = (count - 1) * stride + span - extent - before
        widths.append((before, max(after, reach)))
    return np.pad(x, widths, constant_values=fill), out
