"""A DIEN-like click model: embeddings, attention over a history, GRU and AUGRU from small ops."""

from __future__ import annotations

import numpy as np
import onnx

from zoo.chains import gru_gates
from zoo.graph import Graph
from zoo.layers import linear
from zoo.weights import lowest_number


def dien_like(
    *,
    layers: int = 16,
    batch: int = 128,
    embedding: int = 18,
    users: int = 10000,
    items: int = 20000,
    categories: int = 1000,
    dtype: str = "float32",
    opset: int = 17,
    seed: int = 0,
) -> onnx.ModelProto:
    """Ids of user, item, category and their history to a click probability (batch, 1).

    `layers` is the length of the history: so many steps of each recurrence are unrolled.
    Source of the structure: Zhou et al., "Deep Interest Evolution Network", AAAI 2019.
    """
    g, steps = Graph("dien_like", dtype, opset, seed), layers
    size = 2 * embedding
    user = _embed(g, "user", (batch,), users, embedding)
    item = _embed(g, "item", (batch,), items, embedding)
    category = _embed(g, "category", (batch,), categories, embedding)
    past_items = _embed(g, "history_items", (batch, steps), items, embedding, table="item")
    past = _embed(g, "history_categories", (batch, steps), categories, embedding, table="category")
    length = g.input("history_length", (batch,), "int64", below=steps + 1)

    target = g.op("Concat", item, category, axis=-1)
    history = g.op("Concat", past_items, past, axis=-1)
    order = g.constant(np.arange(steps)[None], "int64")
    valid = g.op("Less", order, g.op("Unsqueeze", length, g.ints(1)))

    with g.scope("interest"):
        states = _recurrence(g, history, "gru.", (batch, steps, size))
        sequence = g.op("Concat", *[g.op("Unsqueeze", h, g.ints(1)) for h in states], axis=1)
    with g.scope("attention"):
        scores = _attention(g, target, sequence, valid, (batch, steps, size))
    with g.scope("evolution"):
        *_, final = _recurrence(g, sequence, "augru.", (batch, steps, size), scores)

    seen = g.op("Mul", history, g.op("Unsqueeze", g.cast(valid, dtype), g.ints(2)))
    pooled = g.reduce("ReduceSum", seen, (1,), keepdims=False)
    features = [user, target, pooled, g.op("Mul", target, pooled), final]
    x = _batch_norm(g, g.op("Concat", *features, axis=-1), "bn.", embedding + 4 * size)
    with g.scope("mlp"):
        x = _dice(g, linear(g, x, "fc1.", embedding + 4 * size, 200), "dice.", 200)
        x = linear(g, x, "fc2.", 200, 80)
        x = g.op("PRelu", x, g.weight("prelu2.weight", (80,), mean=0.25, std=0.02))
        g.output(g.op("Sigmoid", linear(g, x, "fc3.", 80, 1)), "click", (batch, 1))
    return g.model()


def _embed(
    g: Graph, name: str, shape: tuple[int, ...], rows: int, size: int, *, table: str = ""
) -> str:
    weight = g.weight(f"{table or name}_embedding.weight", (rows, size), std=0.5)
    return g.op("Gather", weight, g.input(name, shape, "int64", below=rows))


def _recurrence(
    g: Graph, x: str, prefix: str, dims: tuple[int, int, int], scores: str | None = None
) -> list[str]:
    """Unroll a GRU over x (batch, steps, size); `scores` (batch, steps) makes it an AUGRU."""
    batch, steps, size = dims
    from_input = linear(g, x, f"{prefix}input.", size, 3 * size)
    hidden, states = g.constant(np.zeros((batch, size))), []
    for step in range(steps):
        index = g.constant(step, "int64")
        gates = (
            g.op("Gather", from_input, index, axis=1),
            linear(g, hidden, f"{prefix}hidden.", size, 3 * size),
        )
        score = None
        if scores is not None:
            score = g.op("Unsqueeze", g.op("Gather", scores, index, axis=1), g.ints(1))
        hidden = gru_gates(g, gates, hidden, size, score)
        states.append(hidden)
    return states


def _attention(g: Graph, target: str, sequence: str, valid: str, dims: tuple[int, int, int]) -> str:
    """DIN's scores (batch, steps): a small network over query, fact, difference and product."""
    size = dims[2]
    query = linear(g, target, "attention.query.", size, size)
    query = g.op("PRelu", query, g.weight("attention.prelu", (size,), mean=0.25, std=0.02))
    query = g.op("Expand", g.op("Unsqueeze", query, g.ints(1)), g.ints(*dims))
    parts = [query, sequence, g.op("Sub", query, sequence), g.op("Mul", query, sequence)]
    x = g.op("Concat", *parts, axis=-1)
    x = g.op("Sigmoid", linear(g, x, "attention.fc1.", 4 * size, 80))
    x = g.op("Sigmoid", linear(g, x, "attention.fc2.", 80, 40))
    x = g.op("Squeeze", linear(g, x, "attention.fc3.", 40, 1), g.ints(2))
    masked = g.op("Where", valid, x, g.constant(lowest_number(g.dtype)))
    return g.op("Softmax", masked, axis=-1)


def _batch_norm(g: Graph, x: str, prefix: str, size: int) -> str:
    operands = [
        g.weight(f"{prefix}{part}", (size,), mean=mean, std=0.1)
        for part, mean in (("weight", 1.0), ("bias", 0.0), ("mean", 0.0), ("var", 1.0))
    ]
    return g.op("BatchNormalization", x, *operands, epsilon=1e-5)


def _dice(g: Graph, x: str, prefix: str, size: int) -> str:
    """`p * x + alpha * (1 - p) * x` with p = sigmoid(batch_norm(x))."""
    gate = g.op("Sigmoid", _batch_norm(g, x, prefix, size))
    alpha = g.weight(f"{prefix}alpha", (size,), mean=0.25, std=0.02)
    rest = g.op("Mul", g.op("Mul", g.op("Sub", g.constant(1.0), gate), alpha), x)
    return g.op("Add", rest, g.op("Mul", gate, x))
