"""Products of odd sizes and layouts, heads that are no whole panels, einsum, and attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import onnx
from bench_compute import Case
from zoo.graph import Graph

_HEADS = [(128, 2560, 32, 80), (256, 1152, 16, 72), (256, 320, 8, 40), (197, 768, 12, 64)]
_WEIGHTS = [
    *((384, 768, 3), (384, 768, 7), (384, 768, 15), (128, 768, 20), (128, 768, 100)),
    *((1, 1280, 1000), (1, 768, 30522), (8, 333, 777), (240, 96, 96)),
]
_EINSUMS = [
    ("bqhd,bkhd->bhqk", (1, 128, 12, 64), (1, 128, 12, 64), (1, 12, 128, 128)),
    ("bhlk,bhtk->bhlt", (1, 12, 128, 64), (1, 12, 128, 64), (1, 12, 128, 128)),
    ("bchw,hkc->bkhw", (1, 64, 14, 14), (14, 14, 64), (1, 14, 14, 14)),
]
_ATTENTIONS = [  # batch, heads, rows, keys, width of a head
    *((1, 16, 257, 257, 80), (1, 8, 1024, 77, 40), (1, 8, 1024, 1024, 40), (1, 16, 196, 196, 72)),
    *((1, 12, 50, 50, 64), (1, 32, 128, 128, 80), (64, 4, 49, 49, 32), (1, 8, 1, 512, 64)),
    *((1, 32, 1, 1024, 128), (1, 5, 333, 77, 64), (2, 7, 65, 65, 48)),
]


def cases() -> Iterator[Case]:
    """Yield the products."""
    for rows, depth, heads, width in _HEADS:
        flops = 2 * rows * depth * heads * width
        told = f"{rows} x {depth} into {heads} heads of {width}"
        yield Case("heads", told, flops, partial(_heads, rows, depth, heads, width))
    for sizes in _WEIGHTS:
        rows, depth, columns = sizes
        flops = 2 * rows * depth * columns
        yield Case("matmul_weight", " x ".join(map(str, sizes)), flops, partial(_weight, *sizes))
    for first, second in ((False, False), (True, False), (False, True), (True, True)):
        told = f"300 x 512 x 400{', first transposed' * first}{', second transposed' * second}"
        yield Case("matmul", told, 2 * 300 * 512 * 400, partial(_product, first, second))
    for equation, x, y, out in _EINSUMS:
        yield Case("einsum", equation, 0, partial(_einsum, equation, x, y, out))
    for sizes in _ATTENTIONS:
        batch, heads, rows, keys, width = sizes
        flops = 4 * batch * heads * rows * keys * width
        for rows_first in (False, True):
            told = f"{batch} x {heads} heads of {width}, {rows} rows, {keys} keys"
            told += ", rows before heads" * rows_first
            yield Case("attention", told, flops, partial(_attention, sizes, rows_first))


def _heads(rows: int, depth: int, heads: int, width: int) -> onnx.ModelProto:
    graph = Graph("heads")
    y = graph.op("MatMul", graph.input("x", (1, rows, depth)), graph.weight("w", (depth, depth)))
    y = graph.op("Add", y, graph.weight("bias", (depth,)))
    y = graph.op("Transpose", graph.reshape(y, (1, rows, heads, width)), perm=[0, 2, 1, 3])
    graph.output(y, "y", (1, heads, rows, width))
    return graph.model()


def _weight(rows: int, depth: int, columns: int) -> onnx.ModelProto:
    graph = Graph("matmul_weight")
    y = graph.op("MatMul", graph.input("x", (rows, depth)), graph.weight("w", (depth, columns)))
    graph.output(y, "y", (rows, columns))
    return graph.model()


def _product(first: bool, second: bool) -> onnx.ModelProto:
    graph = Graph("matmul")
    x = graph.input("x", (512, 300) if first else (300, 512))
    y = graph.input("y", (400, 512) if second else (512, 400))
    x = graph.op("Transpose", x, perm=[1, 0]) if first else x
    y = graph.op("Transpose", y, perm=[1, 0]) if second else y
    graph.output(graph.op("MatMul", x, y), "z", (300, 400))
    return graph.model()


def _einsum(
    equation: str, x: Sequence[int], y: Sequence[int], out: Sequence[int]
) -> onnx.ModelProto:
    graph = Graph("einsum")
    z = graph.op("Einsum", graph.input("x", x), graph.input("y", y), equation=equation)
    graph.output(z, "z", out)
    return graph.model()


def _attention(sizes: tuple[int, ...], rows_first: bool) -> onnx.ModelProto:
    batch, heads, rows, keys, width = sizes
    graph = Graph("attention")

    def taken(name: str, extent: int, perm: list[int]) -> str:
        shape = (batch, extent, heads, width) if rows_first else (batch, heads, extent, width)
        x = graph.input(name, shape)
        perm = [{1: 2, 2: 1}.get(axis, axis) for axis in perm] if rows_first else perm
        return x if perm == [0, 1, 2, 3] else graph.op("Transpose", x, perm=perm)

    q, k = taken("q", rows, [0, 1, 2, 3]), taken("k", keys, [0, 1, 3, 2])
    scores = graph.op("Mul", graph.op("MatMul", q, k), graph.constant(width**-0.5))
    y = graph.op("MatMul", graph.op("Softmax", scores, axis=-1), taken("v", keys, [0, 1, 2, 3]))
    y = graph.op("Transpose", y, perm=[0, 2, 1, 3])
    graph.output(graph.reshape(y, (batch, rows, heads * width)), "y", (batch, rows, heads * width))
    return graph.model()
