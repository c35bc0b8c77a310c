"""Stacks of LSTM, GRU and RNN layers as PyTorch's exporter writes them."""

from __future__ import annotations

import onnx

from zoo.graph import Graph

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(
    op: str = "LSTM",
    *,
    steps: int = 25,
    batch: int = 1,
    depth: int = 64,
    hidden: int = 64,
    directions: int = 1,
    layers: int = 1,
    dtype: str = "float32",
    opset: int = 17,
    seed: int = 0,
) -> onnx.ModelProto:
    """(steps, batch, depth) to (steps, batch, directions * hidden)."""
    g = Graph(f"{op.lower()}_stack", dtype, opset, seed)
    x = g.input("x", (steps, batch, depth))
    for layer in range(layers):
        x = recurrent_layer(g, op, x, f"layer{layer}.", (steps, batch), depth, hidden, directions)
        depth = directions * hidden
    g.output(x, "y", (steps, batch, depth))
    return g.model()


def recurrent_layer(
    g: Graph,
    op: str,
    x: str,
    prefix: str,
    dims: tuple[int, int],
    depth: int,
    hidden: int,
    directions: int,
) -> str:
    """Append a layer on (steps, batch, depth), its directions beside each other behind it."""
    rows, std = GATES[op] * hidden, (hidden + depth) ** -0.5
    weights = [
        g.weight(f"{prefix}w", (directions, rows, depth), std=std),
        g.weight(f"{prefix}r", (directions, rows, hidden), std=std),
        g.weight(f"{prefix}b", (directions, 2 * rows), std=std),
    ]
    way = "bidirectional" if directions == 2 else "forward"
    late = {"linear_before_reset": 1} if op == "GRU" else {}  # as PyTorch has it
    made = g.op(op, x, *weights, hidden_size=hidden, direction=way, **late)
    if directions == 1:
        return g.op("Squeeze", made, g.ints(1))
    beside = g.op("Transpose", made, perm=(0, 2, 1, 3))
    return g.reshape(beside, (*dims, directions * hidden))
