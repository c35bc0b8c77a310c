"""Which elements of an axis each element of a resized one is made of, and their weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Form:
    """How an image is resized: the attributes of ONNX's Resize."""

    mode: str
    coordinates: str
    nearest: str
    cubic: float
    antialias: bool
    exclude_outside: bool


@dataclass(frozen=True)
class Sized:
    """An axis: its extent, the one that is made of it, the scale, and the part that is resized."""

    extent: int
    made: int
    scale: float
    roi: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True)
class Taps:
    """For each element that is made (rows) the places read and their weights; `outside` any."""

    places: np.ndarray
    weights: np.ndarray
    outside: np.ndarray


def taps(axis: Sized, form: Form) -> Taps:
    """Return what a resized axis is made of."""
    at = _sources(axis, form.coordinates)
    outside = np.zeros(axis.made, bool)
    if form.coordinates == "tf_crop_and_resize":
        outside = (at < 0) | (at > axis.extent - 1)
    left = np.ceil(at).astype(np.int64) - 1  # the place before: a place itself is the right one
    ratio = at - left
    if form.mode == "nearest":
        right = _takes_right(ratio, form.nearest)
        offsets, weights = np.zeros(1, np.int64), np.ones((axis.made, 1))
        places = (left + right)[:, None] + offsets
    else:
        scale = min(axis.scale, 1.0) if form.antialias else 1.0
        offsets, weights = _weights(ratio, scale, form)
        places = left[:, None] + offsets
    if form.exclude_outside:
        weights = np.where((places >= 0) & (places < axis.extent), weights, 0)
        weights = weights / weights.sum(1, keepdims=True)
    return Taps(np.clip(places, 0, axis.extent - 1), weights, outside)


def _sources(axis: Sized, coordinates: str) -> np.ndarray:
    """Return where each element lies in the axis that it is made of."""
    made, extent, scale = np.arange(axis.made, dtype=np.float64), axis.extent, axis.scale
    width = scale * extent
    if coordinates == "align_corners":
        return made * (extent - 1) / (width - 1) if width != 1 else np.zeros(axis.made)
    if coordinates == "asymmetric":
        return made / scale
    if coordinates == "tf_half_pixel_for_nn":
        return (made + 0.5) / scale
    if coordinates == "tf_crop_and_resize":
        first, last = axis.roi
        if width == 1:
            return np.full(axis.made, (first + last) * (extent - 1) / 2)
        return first * (extent - 1) + made * (last - first) * (extent - 1) / (width - 1)
    if coordinates == "pytorch_half_pixel" and width == 1:
        return np.full(axis.made, -0.5)
    shift = 0.0
    if coordinates == "half_pixel_symmetric":
        shift = extent / 2 * (1 - axis.made / width)
    return shift + (made + 0.5) / scale - 0.5


def _takes_right(ratio: np.ndarray, nearest: str) -> np.ndarray:
    """Return whether the place behind is nearer; a ratio of 1 is that place."""
    right = {
        "round_prefer_floor": ratio > 0.5,
        "round_prefer_ceil": ratio >= 0.5,
        "floor": np.zeros(len(ratio), bool),
        "ceil": np.ones(len(ratio), bool),
    }[nearest]
    return right | (ratio == 1)


def _weights(ratio: np.ndarray, scale: float, form: Form) -> tuple[np.ndarray, np.ndarray]:
    """Return offsets from the place before, and the weights there: a wider kernel for antialias."""
    reach = 1 if form.mode == "linear" else 2
    first = math.floor(-reach / scale) + 1
    offsets = np.arange(first, 2 - first if form.mode == "cubic" or form.antialias else 2)
    if form.mode == "linear" and not form.antialias:
        offsets = np.arange(2)
    distance = np.abs(offsets - ratio[:, None]) * scale
    made = np.clip(1 - distance, 0, 1) if form.mode == "linear" else _cubic(distance, form.cubic)
    return offsets, made / made.sum(1, keepdims=True) if form.antialias else made


def _cubic(x: np.ndarray, a: float) -> np.ndarray:
    """Return Keys's cubic convolution kernel (1981, equation 4)."""
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))
