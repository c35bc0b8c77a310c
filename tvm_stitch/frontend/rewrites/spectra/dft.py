"""DFT and STFT: products with the matrices of the transform, which are known."""

from __future__ import annotations

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes, has_input
from tvm_stitch.frontend.onnx_graph.limits import MOST_TABLE


def dft(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: DFT(x) -> x @ (cos - i sin), real and imaginary parts apart"""
    shape = graph.static_shape(node.input[0]) if node.op_type == "DFT" else None
    if shape is None or node.domain:
        return None
    attrs, build, rank = attributes(node), Builder(graph, node), len(shape)
    if rank < 2 or shape[-1] not in (1, 2):
        return None
    axis, length = attrs.get("axis", 1 if graph.opset < 20 else -2), None
    if graph.opset >= 20 and has_input(node, 2):
        axis = graph.numbers(node, 2)
    if has_input(node, 1):
        length = graph.numbers(node, 1)
    if axis is None or (has_input(node, 1) and length is None):
        return None
    axis = int(np.reshape(axis, -1)[0]) % rank
    kind = bool(attrs.get("inverse", 0)), bool(attrs.get("onesided", 0))
    if length is None:
        length = 2 * (shape[axis] - 1) if all(kind) else shape[axis]
    else:
        length = int(length[0])
    if min(shape[axis], length) * length > MOST_TABLE or length < 1:
        return None
    order = [*(at for at in range(rank - 1) if at != axis), axis, rank - 1]
    x = build("Transpose", node.input[0], perm=order)
    made = transformed(build, x, [shape[at] for at in order], length, *kind,
                       graph.type_of(node.input[0]).dtype)  # fmt: skip
    back = [order.index(at) for at in range(rank)]
    build("Transpose", made, perm=back, out=node.output[0])
    return build.nodes


def transformed(
    build: Builder, x: str, shape: list[int], length: int, inverse: bool, onesided: bool,
    dtype: np.dtype,
) -> str:  # fmt: skip
    """Return the transform along the last axis but one of (..., n, 1 or 2), as (..., m, 2).

    A spectrum of one side and its inverse leave out what follows from the other side.
    """
    count, parts = min(shape[-2], length), shape[-1]
    rows, columns = np.arange(count)[:, None], np.arange(length)[None]
    if onesided and not inverse:
        columns = columns[:, : length // 2 + 1]
    angle = 2 * np.pi * (rows * columns % length) / length
    cosine, sine = np.cos(angle), np.sin(angle) * (1 if inverse else -1)
    if onesided and inverse:
        twice = np.full((count, 1), 2.0)
        twice[0] = 1.0
        if length % 2 == 0 and count > length // 2:
            twice[length // 2] = 1.0
        cosine, sine = cosine * twice, sine * twice
    if inverse:
        cosine, sine = cosine / length, sine / length
    real, *others = _parts(build, x, shape, count, parts)
    cosine, sine = build.constant(cosine, dtype), build.constant(sine, dtype)
    first, second = build("MatMul", real, cosine), build("MatMul", real, sine)
    if others:
        first = build("Sub", first, build("MatMul", others[0], sine))
        second = build("Add", second, build("MatMul", others[0], cosine))
    if onesided and inverse:
        return build.unsqueeze(first, -1)
    lines = [build.unsqueeze(line, -1) for line in (first, second)]
    return build("Concat", *lines, axis=-1)


def _parts(build: Builder, x: str, shape: list[int], count: int, parts: int) -> list[str]:
    """Return the real part and the imaginary one, if there is one, of the first elements."""
    found = []
    for part in range(parts):
        line = build("Gather", x, build.constant(part), axis=len(shape) - 1)
        if count < shape[-2]:
            line = build.slice(line, 0, count, len(shape) - 2)
        found.append(line)
    return found


def stft(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: STFT(x) -> DFT of each frame, less its window"""
    shape = graph.static_shape(node.input[0]) if node.op_type == "STFT" else None
    step = graph.numbers(node, 1) if shape is not None else None
    if shape is None or node.domain or step is None:
        return None
    build, dtype = Builder(graph, node), graph.type_of(node.input[0]).dtype
    window = node.input[2] if has_input(node, 2) else None
    length = graph.numbers(node, 3)
    if length is None and window is None:
        return None
    size = int(length[0]) if length is not None else graph.static_shape(window)[0]
    step, onesided = int(step[0]), bool(attributes(node).get("onesided", 1))
    frames = (shape[1] - size) // max(step, 1) + 1
    if step < 1 or frames < 1 or max(size, frames) * size > MOST_TABLE:
        return None
    places = np.arange(frames)[:, None] * step + np.arange(size)[None]
    x = node.input[0] if len(shape) == 3 else build.unsqueeze(node.input[0], -1)
    parts = shape[2] if len(shape) == 3 else 1
    lines = build("Gather", x, build.constant(places), axis=1)
    if window is not None:
        lines = build("Mul", lines, build.reshape(window, [1, 1, size, 1]))
    sizes = [shape[0], frames, size, parts]
    made = transformed(build, lines, sizes, size, False, onesided, dtype)
    build("Identity", made, out=node.output[0])
    return build.nodes
