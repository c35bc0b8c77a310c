"""Pools, softmaxes, norms, reductions, scans and activations outside transformers' sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import onnx
from bench_compute import Case
from zoo.graph import Graph

from operator_rows.single import shape_text, single

_POOLS = [  # kind, channels, size, kernel, stride, pad
    *(("MaxPool", 64, 112, 3, 2, 1), ("MaxPool", 128, 20, 5, 1, 2)),
    ("AveragePool", 96, 55, 3, 1, 1),
]
_SCANS = [((64, 4096), 1), ((1, 1024, 8), 1), ((4096, 64), 0)]
_GROUPS = [(320, 32), (1280, 8)]
_REDUCTIONS = [
    *(("ReduceMax", (300, 1000), (0,)), ("ReduceMean", (8, 64, 33, 35), (0, 2, 3))),
    ("ReduceL2", (512, 333), (1,)),
]
_ALONG = [  # kind, shape, axis
    *(("Softmax", (1, 21, 128, 128), 1), ("Softmax", (4, 50257), -1)),
    *(("LogSoftmax", (128, 1000), -1), ("ArgMax", (1, 21, 128, 128), 1)),
]


def cases() -> Iterator[Case]:
    """Yield the reductions."""
    for kind, channels, size, kernel, stride, pad in _POOLS:
        told = f"{channels} x {size}^2 by {kernel}, stride {stride}"
        out = (1, channels, *[(size + 2 * pad - kernel) // stride + 1] * 2)
        sizes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        model = partial(single, kind, (1, channels, size, size), out, **sizes)
        yield Case(kind.lower(), told, 0, model)
    yield _case("GlobalAveragePool", (1, 1280, 7, 7), (1, 1280, 1, 1))
    for kind, shape, axis in _ALONG:
        told = f"{shape_text(shape)} along {axis}"
        yield Case(kind.lower(), told, 0, partial(_along, kind, shape, axis))
    for kind, shape, axes in _REDUCTIONS:
        told = f"{shape_text(shape)} over {axes}"
        yield Case(kind.lower(), told, 0, partial(_reduction, kind, shape, axes))
    for shape, axis in _SCANS:
        yield Case("cumsum", f"{shape_text(shape)} along {axis}", 0, partial(_scan, shape, axis))
    for channels, size in _GROUPS:
        told = f"{channels} x {size}^2 in 32 groups, SiLU"
        yield Case("group_norm", told, 0, partial(_group_norm, channels, size))
    yield Case("instance_norm", "64 x 128^2", 0, _instance_norm)
    yield Case("layer_norm", "64 x 49 x 96", 0, _layer_norm)
    yield _case("LRN", (1, 96, 55, 55), size=5)
    yield Case("prelu", "64 x 112^2", 0, _prelu)
    yield Case("gelu", "128 x 3072", 0, _gelu)
    yield Case("squeeze_excite", "96 x 28^2 by 24", 0, _squeeze_excite)


def _case(
    kind: str, shape: Sequence[int], out: Sequence[int] | None = None, **attributes: object
) -> Case:
    model = partial(single, kind, shape, out or shape, **attributes)
    return Case(kind.lower(), shape_text(shape), 0, model)


def _along(kind: str, shape: Sequence[int], axis: int) -> onnx.ModelProto:
    graph = Graph(kind.lower())
    y = graph.op(kind, graph.input("x", shape), axis=axis)
    if kind == "ArgMax":
        shape = [1 if at == axis else extent for at, extent in enumerate(shape)]
    graph.output(y, "y", shape, "int64" if kind == "ArgMax" else None)
    return graph.model()


def _reduction(kind: str, shape: Sequence[int], axes: Sequence[int]) -> onnx.ModelProto:
    graph = Graph(kind.lower())
    out = [1 if axis in axes else extent for axis, extent in enumerate(shape)]
    graph.output(graph.reduce(kind, graph.input("x", shape), axes), "y", out)
    return graph.model()


def _scan(shape: Sequence[int], axis: int) -> onnx.ModelProto:
    graph = Graph("cumsum")
    y = graph.op("CumSum", graph.input("x", shape), graph.constant(axis, "int64"))
    graph.output(y, "y", shape)
    return graph.model()


def _group_norm(channels: int, size: int) -> onnx.ModelProto:
    graph, shape = Graph("group_norm"), (1, channels, size, size)
    y = graph.reshape(graph.input("x", shape), (1, 32, -1))
    ones, zeros = graph.constant([1.0] * 32), graph.constant([0.0] * 32)
    y = graph.reshape(graph.op("InstanceNormalization", y, ones, zeros), shape)
    y = graph.op("Mul", y, graph.weight("scale", (channels, 1, 1)))
    y = graph.op("Add", y, graph.weight("shift", (channels, 1, 1)))
    graph.output(graph.op("Mul", y, graph.op("Sigmoid", y)), "y", shape)
    return graph.model()


def _instance_norm() -> onnx.ModelProto:
    graph, shape = Graph("instance_norm"), (1, 64, 128, 128)
    weights = graph.weight("scale", (64,)), graph.weight("shift", (64,))
    y = graph.op("InstanceNormalization", graph.input("x", shape), *weights)
    graph.output(y, "y", shape)
    return graph.model()


def _layer_norm() -> onnx.ModelProto:
    graph, shape = Graph("layer_norm"), (64, 49, 96)
    weights = graph.weight("scale", (96,)), graph.weight("shift", (96,))
    y = graph.op("LayerNormalization", graph.input("x", shape), *weights, axis=-1)
    graph.output(y, "y", shape)
    return graph.model()


def _prelu() -> onnx.ModelProto:
    graph, shape = Graph("prelu"), (1, 64, 112, 112)
    y = graph.op("PRelu", graph.input("x", shape), graph.weight("slope", (64, 1, 1)))
    graph.output(y, "y", shape)
    return graph.model()


def _gelu() -> onnx.ModelProto:
    graph, shape = Graph("gelu"), (128, 3072)
    x = graph.input("x", shape)
    y = graph.op("Erf", graph.op("Div", x, graph.constant(2**0.5)))
    y = graph.op("Mul", x, graph.op("Add", y, graph.constant(1.0)))
    graph.output(graph.op("Mul", y, graph.constant(0.5)), "y", shape)
    return graph.model()


def _squeeze_excite() -> onnx.ModelProto:
    graph, shape = Graph("squeeze_excite"), (1, 96, 28, 28)
    x = graph.input("x", shape)
    y = graph.op("GlobalAveragePool", x)
    first = graph.weight("first", (24, 96, 1, 1)), graph.weight("first_bias", (24,))
    second = graph.weight("second", (96, 24, 1, 1)), graph.weight("second_bias", (96,))
    y = graph.op("Conv", graph.op("Relu", graph.op("Conv", y, *first)), *second)
    graph.output(graph.op("Mul", x, graph.op("HardSigmoid", y)), "y", shape)
    return graph.model()
