"""What moves elements: transposes, resizes, pads, gathers, scatters, samples, joins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import onnx
from bench_compute import Case
from zoo.graph import Graph

from operator_rows.single import shape_text, single

_TRANSPOSES = [
    *(((1, 56, 56, 96), (0, 3, 1, 2)), ((1, 96, 56, 56), (0, 2, 3, 1))),
    *(((8, 128, 12, 64), (0, 2, 1, 3)), ((8, 12, 128, 64), (0, 1, 3, 2))),
    *(((300, 70, 50), (2, 0, 1)), ((1000, 999), (1, 0))),
    ((1, 32, 4, 32, 4, 48), (0, 2, 4, 1, 3, 5)),
]
_RESIZES = [  # channels, size, out, attributes
    (64, 40, 80, {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}),
    (21, 33, 257, {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
    (16, 40, 64, {"mode": "cubic"}),
    (128, 40, 80, {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
    (256, 13, 26, {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
]
_SAMPLED = [(1, 32, 64, 64), (1, 256, 20, 20)]


def cases() -> Iterator[Case]:
    """Yield the movements."""
    for shape, perm in _TRANSPOSES:
        told = f"{shape_text(shape)} as {perm}"
        out = [shape[axis] for axis in perm]
        model = partial(single, "Transpose", shape, out, perm=list(perm))
        yield Case("transpose", told, 0, model)
    for channels, size, out, attributes in _RESIZES:
        told = f"{channels} x {size}^2 to {out}^2, {' '.join(attributes.values())}"
        yield Case("resize", told, 0, partial(_resize, channels, size, out, attributes))
    for mode in ("reflect", "edge", "constant"):
        yield Case("pad", f"32 x 128^2 by 3, {mode}", 0, partial(_pad, mode))
    for shape in _SAMPLED:
        yield Case("grid_sample", shape_text(shape), 0, partial(_grid_sample, shape))
    shapes = (1, 48, 64, 64), (1, 12, 128, 128)
    model = partial(single, "DepthToSpace", *shapes, blocksize=2, mode="CRD")
    yield Case("depth_to_space", shape_text(shapes[0]), 0, model)
    model = partial(single, "SpaceToDepth", *reversed(shapes), blocksize=2)
    yield Case("space_to_depth", shape_text(shapes[1]), 0, model)
    yield Case("concat", "64, 33, 31 channels of 56^2", 0, _concat)
    yield Case("channel_shuffle", "116 x 28^2 in 2 groups", 0, _shuffle)
    yield Case("gather", "4 x 128 of 30522 x 768", 0, _gather)
    yield Case("gather_elements", "64 x 1000 of 64 x 4096", 0, _gather_elements)
    yield Case("scatter_elements", "64 x 8 into 64 x 4096", 0, _scatter_elements)
    yield Case("scatter_nd", "a slice of 128 x 768", 0, _scatter_nd)


def _resize(channels: int, size: int, out: int, attributes: dict) -> onnx.ModelProto:
    graph = Graph("resize", opset=18)
    x, sizes = graph.input("x", (1, channels, size, size)), graph.ints(1, channels, out, out)
    y = graph.op("Resize", x, "", "", sizes, **attributes)
    graph.output(y, "y", (1, channels, out, out))
    return graph.model()


def _pad(mode: str) -> onnx.ModelProto:
    graph = Graph("pad")
    x, pads = graph.input("x", (1, 32, 128, 128)), graph.ints(0, 0, 3, 3, 0, 0, 3, 3)
    graph.output(graph.op("Pad", x, pads, mode=mode), "y", (1, 32, 134, 134))
    return graph.model()


def _grid_sample(shape: Sequence[int]) -> onnx.ModelProto:
    graph = Graph("grid_sample")
    x, grid = graph.input("x", shape), graph.input("grid", (1, *shape[2:], 2))
    graph.output(graph.op("GridSample", x, graph.op("Tanh", grid)), "y", shape)
    return graph.model()


def _concat() -> onnx.ModelProto:
    graph = Graph("concat")
    parts = [graph.input(f"x{i}", (1, n, 56, 56)) for i, n in enumerate((64, 33, 31))]
    y = graph.op("Relu", graph.op("Concat", *parts, axis=1))
    graph.output(y, "y", (1, 128, 56, 56))
    return graph.model()


def _shuffle() -> onnx.ModelProto:
    graph = Graph("channel_shuffle")
    y = graph.reshape(graph.input("x", (1, 116, 28, 28)), (1, 2, 58, 28, 28))
    y = graph.op("Transpose", y, perm=[0, 2, 1, 3, 4])
    graph.output(graph.reshape(y, (1, 116, 28, 28)), "y", (1, 116, 28, 28))
    return graph.model()


def _gather() -> onnx.ModelProto:
    graph = Graph("gather")
    places = graph.input("places", (4, 128), "int64", below=30522)
    graph.output(graph.op("Gather", graph.weight("w", (30522, 768)), places), "y", (4, 128, 768))
    return graph.model()


def _gather_elements() -> onnx.ModelProto:
    graph = Graph("gather_elements")
    x, places = graph.input("x", (64, 4096)), graph.input("i", (64, 1000), "int64", below=4096)
    graph.output(graph.op("GatherElements", x, places, axis=1), "y", (64, 1000))
    return graph.model()


def _scatter_elements() -> onnx.ModelProto:
    graph = Graph("scatter_elements")
    x, places = graph.input("x", (64, 4096)), graph.input("i", (64, 8), "int64", below=4096)
    y = graph.op("ScatterElements", x, places, graph.input("u", (64, 8)), axis=1)
    graph.output(y, "y", (64, 4096))
    return graph.model()


def _scatter_nd() -> onnx.ModelProto:
    graph = Graph("scatter_nd")
    x, updates = graph.input("x", (1, 128, 768)), graph.input("u", (1, 40, 768))
    places = np.stack(np.meshgrid([0], np.arange(30, 70), indexing="ij"), -1)
    y = graph.op("ScatterND", x, graph.constant(places, "int64"), updates)
    graph.output(y, "y", (1, 128, 768))
    return graph.model()
