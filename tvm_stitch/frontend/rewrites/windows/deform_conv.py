"""DeformConv: a window's pixels are looked up where offsets say, then weighted as one product."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes, has_input

_HALVES = ("float16", "bfloat16")


@dataclass(frozen=True)
class _Sizes:
    """Images in `offsets` groups of channels, each with offsets of its own.

    Windows have `kernel` taps. Products go over the channels of one of `groups`.
    """

    batch: int
    channels: int
    image: tuple[int, ...]
    results: int
    kernel: tuple[int, ...]
    out: tuple[int, ...]
    groups: int
    offsets: int

    @property
    def taps(self) -> int:
        return math.prod(self.kernel)

    @property
    def windows(self) -> int:
        return math.prod(self.out)

    @property
    def images(self) -> int:
        """Images whose channels share offsets."""
        return self.batch * self.offsets


def deform_conv(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: DeformConv(x, w, offsets, b, mask) -> MatMul(mask * pixels(x, offsets), w) + b

    A pixel between others is what they are, weighted by how near they are; outside is zero.
    """
    if node.op_type != "DeformConv" or node.domain:
        return None
    shapes = [graph.static_shape(name) for name in node.input[:3]]
    if any(shape is None for shape in shapes):
        return None
    x, w, offsets = shapes
    attrs, build = attributes(node), Builder(graph, node)
    sizes = _Sizes(
        x[0], x[1], x[2:], w[0], w[2:], offsets[2:],
        attrs.get("group", 1), attrs.get("offset_group", 1),
    )  # fmt: skip
    dtype = graph.type_of(node.input[0]).dtype
    wide = np.dtype(np.float32) if dtype.name in _HALVES else dtype
    image, weight, offset = (_wider(build, name, dtype, wide) for name in node.input[:3])
    pixels = _pixels(build, sizes, image, _coordinates(build, sizes, attrs, offset, wide), wide)
    if has_input(node, 4):
        mask = _wider(build, node.input[4], dtype, wide)
        pixels = build("Mul", pixels, _by_window(build, sizes, mask, 1))
    made = _product(build, sizes, weight, pixels)
    if has_input(node, 3):
        bias = _wider(build, node.input[3], dtype, wide)
        bias = build.reshape(bias, [sizes.results, *[1] * len(sizes.out)])
        made = build("Add", made, bias)
    build.cast(made, dtype, out=node.output[0])
    return build.nodes


def _wider(build: Builder, value: str, dtype: np.dtype, wide: np.dtype) -> str:
    return value if dtype == wide else build.cast(value, wide)


def _by_window(build: Builder, sizes: _Sizes, value: str, parts: int) -> str:
    """Return what there is `parts` of for each tap and window as (parts, images, windows, taps, 1).

    It comes as images of (taps, parts, windows).
    """
    each = build.reshape(value, [sizes.images, sizes.taps, parts, sizes.windows])
    turned = build("Transpose", each, perm=[2, 0, 3, 1])
    return build.reshape(turned, [parts, sizes.images, sizes.windows, sizes.taps, 1])


def _coordinates(build: Builder, sizes: _Sizes, attrs: dict, offset: str, wide: np.dtype):
    """Return where windows look along each axis of the image."""
    rank = len(sizes.kernel)
    strides, dilations = (attrs.get(name, [1] * rank) for name in ("strides", "dilations"))
    pads = attrs.get("pads", [0] * 2 * rank)
    moved = _by_window(build, sizes, offset, rank)
    tap, out = np.indices(sizes.kernel), np.indices(sizes.out)
    found = []
    for axis in range(rank):
        starts = out[axis].reshape(-1, 1, 1) * strides[axis] - pads[axis]
        grid = build.constant(starts + tap[axis].reshape(1, -1, 1) * dilations[axis], wide)
        found.append(build("Add", build.slice(moved, axis, axis + 1, 0), grid))
    return found


@dataclass(frozen=True)
class _Neighbour:
    """A whole coordinate beside a place: whether it is in the image, and how near it is."""

    index: str
    inside: str
    share: str


def _neighbours(build: Builder, place: str, extent: int, wide: np.dtype) -> list[_Neighbour]:
    """Return the coordinates below and above a place along an axis."""
    zero, one = build.constant(0, wide), build.constant(1, wide)
    last = build.constant(extent - 1, wide)
    low = build("Floor", place)
    above = build("Sub", place, low)
    found = []
    for whole, share in ((low, build("Sub", one, above)), (build("Add", low, one), above)):
        after, before = build("GreaterOrEqual", whole, zero), build("LessOrEqual", whole, last)
        inside = build("And", after, before)
        # An offset may be infinite, or no number.
        index = build.cast(build("Where", inside, whole, zero), np.dtype(np.int64))
        found.append(_Neighbour(index, inside, build("Where", inside, share, zero)))
    return found


def _pixels(build: Builder, sizes: _Sizes, image: str, places: list[str], wide: np.dtype) -> str:
    """Return what windows see: (1, images, windows, taps, channels that share offsets)."""
    channels, size = sizes.channels // sizes.offsets, math.prod(sizes.image)
    planes = build.reshape(image, [sizes.images, channels, size])
    lines = build("Transpose", planes, perm=[0, 2, 1])
    lines = build.reshape(lines, [sizes.images * size, channels])
    first = build.constant(np.arange(sizes.images).reshape(1, -1, 1, 1, 1) * size)
    seen = [1, sizes.images, sizes.windows, sizes.taps]
    zero, total = build.constant(0, wide), ""
    extents = zip(places, sizes.image, strict=True)
    beside = [_neighbours(build, place, extent, wide) for place, extent in extents]
    for corner in itertools.product(*beside):
        index, inside, share = corner[0].index, corner[0].inside, corner[0].share
        for extent, one in zip(sizes.image[1:], corner[1:], strict=True):
            index = build("Add", build("Mul", index, build.constant(extent)), one.index)
            inside, share = build("And", inside, one.inside), build("Mul", share, one.share)
        index = build.reshape(build("Add", index, first), seen)
        pixel = build("Where", inside, build("Gather", lines, index, axis=0), zero)
        term = build("Mul", pixel, share)
        total = build("Add", total, term) if total else term
    return total


def _product(build: Builder, sizes: _Sizes, weight: str, pixels: str) -> str:
    """Return the sums over the windows of each group of channels, as images."""
    batch, groups, channels = sizes.batch, sizes.groups, sizes.channels // sizes.groups
    depth, results = sizes.taps * channels, sizes.results // groups
    if sizes.offsets > 1:
        parts = [batch, sizes.offsets, sizes.windows, sizes.taps, -1]
        pixels = build("Transpose", build.reshape(pixels, parts), perm=[0, 2, 3, 1, 4])
    if groups > 1:
        pixels = build.reshape(pixels, [batch, sizes.windows, sizes.taps, groups, channels])
        pixels = build("Transpose", pixels, perm=[0, 3, 1, 2, 4])
    rows = build.reshape(pixels, [batch, groups, sizes.windows, depth])
    taps = build.reshape(weight, [1, groups, results, channels, sizes.taps])
    columns = build("Transpose", taps, perm=[0, 1, 4, 3, 2])
    made = build("MatMul", rows, build.reshape(columns, [1, groups, depth, results]))
    made = build("Transpose", made, perm=[0, 1, 3, 2])
    return build.reshape(made, [batch, sizes.results, *sizes.out])
