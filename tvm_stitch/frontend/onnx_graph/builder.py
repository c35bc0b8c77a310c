"""Build the nodes that replace one node, in the graph's own operator set."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.graph import Graph


class Builder:
    """Collects nodes; each method returns the name of the value it makes."""

    def __init__(self, graph: Graph, replaced: onnx.NodeProto) -> None:
        self.graph, self.replaced = graph, replaced
        self.nodes: list[onnx.NodeProto] = []

    def __call__(self, op: str, *inputs: str, out: str | None = None, **attrs) -> str:
        out = out or self.graph.fresh(self.replaced.output[0])
        name = self.replaced.name
        self.nodes.append(onnx.helper.make_node(op, inputs, [out], name=name, **attrs))
        return out

    def add(
        self, op: str, inputs: Sequence[str], outputs: Sequence[str], domain: str, **attrs: object
    ) -> None:
        """Add a node of several results, of a domain that is not ONNX's."""
        name = self.replaced.name
        node = onnx.helper.make_node(op, inputs, outputs, name=name, domain=domain, **attrs)
        self.nodes.append(node)

    def constant(self, value: object, dtype: object = np.int64) -> str:
        return self.graph.add_constant(self.replaced.output[0], np.asarray(value, dtype))

    def cast(self, value: str, dtype: np.dtype, out: str | None = None) -> str:
        to = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self("Cast", value, out=out, to=to)

    def reshape(self, value: str, shape: Sequence[int], out: str | None = None) -> str:
        return self("Reshape", value, self.constant(list(shape)), out=out)

    def slice(self, value: str, low: int, high: int, axis: int, out: str | None = None) -> str:
        if self.graph.opset < 10:
            return self("Slice", value, out=out, starts=[low], ends=[high], axes=[axis])
        ends = (self.constant([end]) for end in (low, high, axis))
        return self("Slice", value, *ends, out=out)

    def unsqueeze(self, value: str, axis: int, out: str | None = None) -> str:
        if self.graph.opset < 13:
            return self("Unsqueeze", value, out=out, axes=[axis])
        return self("Unsqueeze", value, self.constant([axis]), out=out)

    def reduce(
        self, kind: str, value: str, axes: Sequence[int], keepdims: int = 1, out: str | None = None
    ) -> str:
        since = 13 if kind == "Sum" else 18
        if self.graph.opset < since:
            return self(f"Reduce{kind}", value, out=out, axes=list(axes), keepdims=keepdims)
        axes = self.constant(list(axes))
        return self(f"Reduce{kind}", value, axes, out=out, keepdims=keepdims)

    def normalised(self, value: str, axes: Sequence[int], epsilon: float, dtype: np.dtype):
        """Return (x - mean) / sqrt(var + epsilon), the mean and the reciprocal deviation."""
        mean = self.reduce("Mean", value, axes)
        centred = self("Sub", value, mean)
        variance = self.reduce("Mean", self("Mul", centred, centred), axes)
        deviation = self("Sqrt", self("Add", variance, self.constant(epsilon, dtype)))
        return self("Div", centred, deviation), mean, self("Reciprocal", deviation)
