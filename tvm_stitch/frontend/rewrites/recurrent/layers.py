"""Recurrent layers as their steps, the products with the inputs of all steps as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes, has_input
from tvm_stitch.frontend.rewrites.recurrent.activations import Activation, activations
from tvm_stitch.frontend.rewrites.recurrent.cells import CELLS, Gates

MOST_STEPS = 1024  # each is some nodes
RECURRENT_OPS = ("GRU", "LSTM", "RNN")


@dataclass(frozen=True)
class _Layer:
    """A node's sizes and operands; states are two-dimensional: (batch, hidden)."""

    build: Builder
    node: onnx.NodeProto
    dtype: np.dtype
    steps: int
    batch: int
    depth: int
    hidden: int
    is_batch_first: bool
    lengths: str | None

    def operand(self, position: int, direction: int, shape: Sequence[int]) -> str | None:
        """Return what a direction has of an operand, None if it is not given."""
        if not has_input(self.node, position):
            return None
        place = self.build.constant(direction)
        return self.build.reshape(
            self.build("Gather", self.node.input[position], place, axis=0), shape
        )

    def state(self, position: int, direction: int) -> str:
        """Return the state before the first step."""
        shape = (self.batch, self.hidden)
        if not has_input(self.node, position):
            return self.build.constant(np.zeros(shape), self.dtype)
        place = self.build.constant(direction)
        axis = 1 if self.is_batch_first else 0
        return self.build("Gather", self.node.input[position], place, axis=axis)


def recurrent(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: LSTM(x, w, r) -> xw = x @ w; for each step t: h, c = cell(xw[t] + h @ r, c)"""
    if node.op_type not in RECURRENT_OPS or node.domain:
        return None
    shape, known = graph.static_shape(node.input[0]), graph.type_of(node.input[0])
    weights = graph.static_shape(node.input[2])
    where = f"{node.op_type} {node.name or node.output[0]!r}"
    if shape is None or weights is None or len(shape) != 3:
        raise StitchError(where, "the shapes of its inputs are unknown", "bind all dimensions")
    attrs, build = attributes(node), Builder(graph, node)
    if shape[1 if attrs.get("layout", 0) else 0] > MOST_STEPS:
        raise StitchError(where, f"it has more than {MOST_STEPS} steps", "run it in pieces")
    cell = CELLS[node.op_type]
    is_batch_first = bool(attrs.get("layout", 0))
    batch, steps = shape[:2] if is_batch_first else shape[1::-1]
    lengths = node.input[4] if has_input(node, 4) else None
    sizes = steps, batch, shape[2], weights[2]
    layer = _Layer(build, node, known.dtype, *sizes, is_batch_first, lengths)
    x = node.input[0]
    if is_batch_first:
        x = build("Transpose", x, perm=[1, 0, 2])
    rows = build.reshape(x, [steps * batch, shape[2]])
    way = attrs.get("direction", b"forward").decode()
    functions = activations(attrs, cell.activations, weights[0], where)
    outputs, finals = [], []
    for direction, chosen in enumerate(functions):
        backwards = way == "reverse" or direction == 1
        made, final = _direction(layer, cell, rows, direction, backwards, chosen, attrs)
        outputs.append(made)
        finals.append(final)
    _put(layer, outputs, finals)
    return build.nodes


def _direction(layer: _Layer, cell, rows: str, direction: int, backwards: bool,
               chosen: list[Activation], attrs: dict) -> tuple[list[str], list[str]]:  # fmt: skip
    """Return the hidden states of all steps, in the order of time, and the last states."""
    build, hidden, gates = layer.build, layer.hidden, cell.gates
    inputs = layer.operand(1, direction, (gates * hidden, layer.depth))
    recurrent_weights = layer.operand(2, direction, (gates * hidden, hidden))
    bias = layer.operand(3, direction, (2, gates * hidden))
    peepholes = layer.operand(7, direction, (3, hidden)) if cell.has_memory else None
    products = build("MatMul", rows, build("Transpose", inputs, perm=[1, 0]))
    to = Gates(build, layer.dtype, hidden, chosen, attrs, peepholes)
    step = cell.prepare(to, build("Transpose", recurrent_weights, perm=[1, 0]), bias)
    if step.bias is not None:
        products = build("Add", products, step.bias)
    by_step = build.reshape(products, [layer.steps, layer.batch, gates * hidden])
    state = [layer.state(5, direction)]
    if cell.has_memory:
        state.append(layer.state(6, direction))
    made: list[str] = [""] * layer.steps
    order = range(layer.steps)
    for at in reversed(order) if backwards else order:
        here = build("Gather", by_step, build.constant(at), axis=0)
        new = step(here, state)
        made[at] = new[0]
        if layer.lengths is not None:
            inside = _inside(layer, at)
            zero = build.constant(0, layer.dtype)
            made[at] = build("Where", inside, new[0], zero)
            new = [build("Where", inside, a, b) for a, b in zip(new, state, strict=True)]
        state = new
    return made, state


def _inside(layer: _Layer, at: int) -> str:
    """Return which sequences have a step."""
    dtype = layer.build.graph.type_of(layer.lengths).dtype
    inside = layer.build("Greater", layer.lengths, layer.build.constant(at, dtype))
    return layer.build.reshape(inside, [layer.batch, 1])


def _put(layer: _Layer, outputs: list[list[str]], finals: list[list[str]]) -> None:
    """Make the node's results of what its directions made."""
    build, names = layer.build, [*layer.node.output, "", "", ""]
    directions, sizes = len(outputs), (layer.batch, layer.hidden)
    if names[0]:
        lines = [build.reshape(made, [1, 1, *sizes]) for step in zip(*outputs, strict=True)
                 for made in step]  # fmt: skip
        whole = build.reshape(_joined(build, lines), [layer.steps, directions, *sizes])
        order = [2, 0, 1, 3] if layer.is_batch_first else [0, 1, 2, 3]
        build("Transpose", whole, perm=order, out=names[0])
    for place, name in enumerate(names[1 : 1 + len(finals[0])]):
        if not name:
            continue
        lines = [build.reshape(final[place], [1, *sizes]) for final in finals]
        order = [1, 0, 2] if layer.is_batch_first else [0, 1, 2]
        build("Transpose", _joined(build, lines), perm=order, out=name)


def _joined(build: Builder, lines: list[str]) -> str:
    return lines[0] if len(lines) == 1 else build("Concat", *lines, axis=0)
