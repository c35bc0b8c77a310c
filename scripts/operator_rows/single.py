"""Models of one operator of one input."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from zoo.graph import Graph


def single(
    kind: str, shape: Sequence[int], out: Sequence[int], **attributes: object
) -> onnx.ModelProto:
    """Return an operator of a random tensor, as a model."""
    graph = Graph(kind.lower())
    graph.output(graph.op(kind, graph.input("x", shape), **attributes), "y", out)
    return graph.model()


def shape_text(extents: Sequence[int]) -> str:
    """Return a shape for a table: `8 x 128 x 64`."""
    return " x ".join(map(str, extents))
