"""Cases of LSTM, GRU and RNN: directions, lengths, activations, clips, and what a cell can do."""

from __future__ import annotations

import numpy as np

from support.frontend.case import Case, random

STEPS, BATCH, DEPTH, HIDDEN = 5, 3, 4, 6
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def layer(
    name: str, op: str, directions: int = 1, given: tuple[str, ...] = ("b",), **attrs
) -> Case:
    """Return a layer with some of its optional operands: b, lengths, h, c, p."""
    gates, sizes = GATES[op], (directions, BATCH, HIDDEN)
    weights = {
        "w": random(directions, gates * HIDDEN, DEPTH, seed=1),
        "r": random(directions, gates * HIDDEN, HIDDEN, low=-0.5, high=0.5, seed=2),
        "b": random(directions, 2 * gates * HIDDEN, seed=3),
        "p": random(directions, 3 * HIDDEN, seed=4),
    }
    inputs = {
        "x": random(STEPS, BATCH, DEPTH),
        "lengths": np.array([5, 1, 3], np.int32),
        "h": random(*sizes, seed=5),
        "c": random(*sizes, seed=6),
    }
    optional = ("b", "lengths", "h", *(("c", "p") if op == "LSTM" else ()))
    order = ["x", "w", "r", *(each if each in given else "" for each in optional)]
    while not order[-1]:
        order.pop()
    return Case(
        f"{op}-{name}",
        op,
        {key: value for key, value in inputs.items() if key in order},
        {key: value for key, value in weights.items() if key in order},
        {"hidden_size": HIDDEN, **attrs},
        order=tuple(order),
        outputs=3 if op == "LSTM" else 2,
        opset=14,
    )


def recurrent_cases():
    for op in GATES:
        yield layer("plain", op)
        yield layer("no-bias", op, given=())
        yield layer("reverse-lengths", op, given=("b", "lengths", "h"), direction="reverse")
        yield layer("both-lengths", op, 2, ("b", "lengths"), direction="bidirectional")
    yield layer("states", "LSTM", 2, ("b", "h", "c", "p"), direction="bidirectional")
    yield layer("peepholes-lengths", "LSTM", given=("lengths", "c", "p"))
    yield layer("clip", "LSTM", clip=0.5)
    yield layer("coupled", "LSTM", given=("b", "c"), input_forget=1)
    yield layer("reset-behind", "GRU", given=("b", "h"), linear_before_reset=1)
    yield layer("reset-behind-no-bias", "GRU", given=(), linear_before_reset=1)
    yield layer(
        "numbers",
        "RNN",
        2,
        direction="bidirectional",
        activations=["Affine", "ScaledTanh"],
        activation_alpha=[0.5, 1.25],
        activation_beta=[0.25, 0.75],
    )
    yield layer("hard", "LSTM", activations=["HardSigmoid", "Softsign", "Relu"])
    yield layer("soft", "GRU", activations=["HardSigmoid", "Elu"])
    yield layer("leaky", "RNN", activations=["LeakyRelu"], activation_alpha=[0.125])


CASES = list(recurrent_cases())
