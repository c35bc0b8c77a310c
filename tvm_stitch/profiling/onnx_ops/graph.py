"""A model as a list of nodes, and the loop that runs them over one column of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from ..peer import CannotRun

_REDUCTIONS = ("Max", "Mean", "Min", "Prod", "Sum", "SumSquare", "L1", "L2", "LogSumExp")
# Operands that shape the computation: they must be constants, and stay NumPy arrays.
STATIC: dict[str, tuple[int, ...]] = {
    "ConstantOfShape": (0,),
    "CumSum": (1,),
    "Expand": (1,),
    "Pad": (1, 2, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    **{f"Reduce{kind}": (1,) for kind in _REDUCTIONS},
}

Row = Callable[..., Any]


@dataclass(frozen=True)
class Column:
    """The rows of one framework, and how it takes a constant scalar."""

    rows: Mapping[str, Row]
    constant: Callable[[np.ndarray], Any]


@dataclass(frozen=True)
class Node:
    """One ONNX node; `attrs` are Python values, NumPy arrays where the attribute is a tensor."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    opset: int

    def get(self, name: str, default: Any = None) -> Any:
        return self.attrs.get(name, default)

    def axes(self, operand: np.ndarray | None) -> list[int] | None:
        """Return the axes, from the operand of newer opsets or the attribute of older ones."""
        return self.get("axes") if operand is None else operand.ravel().tolist()


@dataclass(frozen=True)
class Graph:
    """`weights` become tensors of the framework; `constants` stay arrays that Python can read.

    Constants are what a STATIC operand reads and every scalar, so that a power of two stays one.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: dict[str, np.ndarray]
    constants: dict[str, np.ndarray]

    def run(self, column: Column, weights: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs in order, computed by the column's functions."""
        scalars = {k: column.constant(v) for k, v in self.constants.items() if v.ndim == 0}
        values = {"": None, **scalars, **weights}
        values.update(zip(self.inputs, inputs, strict=True))
        for node in self.nodes:
            static = STATIC.get(node.op, ())
            operands = [
                self.constants[name] if index in static and name else values[name]
                for index, name in enumerate(node.inputs)
            ]
            result = column.rows[node.op](node, *operands)
            results = result if isinstance(result, tuple) else (result,)
            # Optional trailing outputs, Dropout's mask for one, may be left out by the column.
            values.update(zip(node.outputs, results, strict=False))
        return [values[name] for name in self.outputs]


def read(path: Path, column: Column) -> Graph:
    """Read the model at `path`.

    Raises: CannotRun for an op the column lacks, and where a STATIC operand is not a constant.
    """
    model = onnx.load(path)
    opset = max((each.version for each in model.opset_import if not each.domain), default=1)
    graph, stored = model.graph, {}
    for tensor in graph.initializer:
        stored[tensor.name] = numpy_helper.to_array(tensor)
    nodes = []
    for proto in graph.node:
        attrs = {each.name: _attribute(each) for each in proto.attribute}
        if proto.op_type == "Constant":
            stored[proto.output[0]] = _constant(attrs)
            continue
        if proto.domain not in ("", "ai.onnx") or proto.op_type not in column.rows:
            raise CannotRun(f"the table has no row for {proto.op_type}")
        nodes.append(Node(proto.op_type, tuple(proto.input), tuple(proto.output), attrs, opset))
    static = {node.inputs[i] for node in nodes for i in _static_indices(node)}
    if unknown := sorted(name for name in static if name not in stored):
        raise CannotRun(f"{unknown[0]} shapes the graph and is computed at run time")
    constants = {k: v for k, v in stored.items() if k in static or v.ndim == 0}
    used = {
        name
        for node in nodes
        for index, name in enumerate(node.inputs)
        if index not in STATIC.get(node.op, ())
    }
    weights = {k: v for k, v in stored.items() if k in used and v.ndim > 0}
    inputs = tuple(value.name for value in graph.input if value.name not in stored)
    outputs = tuple(value.name for value in graph.output)
    weights |= {k: stored[k] for k in outputs if k in stored}
    return Graph(tuple(nodes), inputs, outputs, weights, constants)


def _static_indices(node: Node) -> list[int]:
    where = STATIC.get(node.op, ())
    return [i for i in where if i < len(node.inputs) and node.inputs[i]]


def _attribute(proto: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return list(value) if isinstance(value, (list, tuple)) or hasattr(value, "append") else value


def _constant(attrs: Mapping[str, Any]) -> np.ndarray:
    if "value" in attrs:
        return attrs["value"]
    ((name, value),) = attrs.items()
    dtype = np.float32 if "float" in name else np.int64
    return np.asarray(value, dtype)
