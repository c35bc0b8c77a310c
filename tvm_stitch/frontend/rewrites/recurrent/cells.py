"""One step of each recurrent layer, as ONNX has it. Each gate has a product of its own.

Gates that are columns of one product would meet only when all of it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.rewrites.recurrent.activations import Activation


@dataclass(frozen=True)
class Gates:
    """What a cell's gates need; `peepholes` are (3, hidden): of input, output and forget gate."""

    build: Builder
    dtype: np.dtype
    hidden: int
    activations: Sequence[Activation]
    attrs: Mapping[str, object]
    peepholes: str | None

    def parts(self, value: str, count: int) -> list[str]:
        """Return the gates' columns of (rows, count * hidden)."""
        size = self.hidden
        return [self.build.slice(value, at * size, (at + 1) * size, 1) for at in range(count)]

    def products(self, value: str, weights: Sequence[str]) -> list[str]:
        """Return what each gate takes of a state."""
        return [self.build("MatMul", value, each) for each in weights]

    def row(self, value: str, at: int) -> str:
        """Return one row."""
        return self.build.slice(value, at, at + 1, 0)

    def activated(self, which: int, *terms: str) -> str:
        """Return an activation of a sum."""
        return self.activations[which](self.build, self.sum(*terms), self.dtype)

    def sum(self, *terms: str) -> str:
        first, *rest = terms
        for term in rest:
            first = self.build("Add", first, term)
        return first

    def less_one(self, value: str) -> str:
        """Return 1 - value."""
        return self.build("Sub", self.build.constant(1, self.dtype), value)


@dataclass(frozen=True)
class Step:
    """A step on what a step's inputs make of all gates, `bias` added, and on the state."""

    run: Callable[[str, list[str]], list[str]]
    bias: str | None

    def __call__(self, here: str, state: list[str]) -> list[str]:
        return self.run(here, state)


@dataclass(frozen=True)
class Cell:
    """How many gates and which activations a layer has, and how a step of it is made."""

    gates: int
    activations: list[str]
    has_memory: bool
    prepare: Callable[[Gates, str, str | None], Step]


def _both(to: Gates, bias: str | None) -> str | None:
    """Return the sum of the inputs' bias and the recurrent one."""
    return None if bias is None else to.build("Add", to.row(bias, 0), to.row(bias, 1))


def _rnn(to: Gates, weights: str, bias: str | None) -> Step:
    def run(here: str, state: list[str]) -> list[str]:
        return [to.activated(0, here, to.build("MatMul", state[0], weights))]

    return Step(run, _both(to, bias))


def _lstm(to: Gates, weights: str, bias: str | None) -> Step:
    build, peeping = to.build, to.peepholes is not None
    by_gate = to.parts(weights, 4)
    of_input, of_output, of_forget = (
        [to.row(to.peepholes, at) for at in range(3)] if peeping else [""] * 3
    )

    def seen(peephole: str, memory: str) -> list[str]:
        return [build("Mul", peephole, memory)] if peeping else []

    def run(here: str, state: list[str]) -> list[str]:
        hidden, memory = state
        sums = zip(to.parts(here, 4), to.products(hidden, by_gate), strict=True)
        i, o, f, c = (to.sum(*pair) for pair in sums)
        taken = to.activated(0, i, *seen(of_input, memory))
        if to.attrs.get("input_forget", 0):
            kept = to.less_one(taken)
        else:
            kept = to.activated(0, f, *seen(of_forget, memory))
        new = build("Mul", taken, to.activated(1, c))
        memory = build("Add", build("Mul", kept, memory), new)
        given = to.activated(0, o, *seen(of_output, memory))
        # ONNX Runtime clips what gates are given, and not the memory.
        seen_of_it = to.activations[2](build, memory, to.dtype, clips=False)
        return [build("Mul", given, seen_of_it), memory]

    return Step(run, _both(to, bias))


def _gru(to: Gates, weights: str, bias: str | None) -> Step:
    """The candidate's recurrent bias is reset with the product, or it is not."""
    build, hidden = to.build, to.hidden
    late = bool(to.attrs.get("linear_before_reset", 0))
    outer = own = None
    if bias is not None:
        outer = _both(to, bias)
        if late:
            own = build.slice(to.row(bias, 1), 2 * hidden, 3 * hidden, 1)
            zeros = build.constant(np.zeros((1, 2 * hidden)), to.dtype)
            outer = build("Sub", outer, build("Concat", zeros, own, axis=1))
    by_gate = to.parts(weights, 3)

    def run(here: str, state: list[str]) -> list[str]:
        (last,) = state
        z, r, h = to.parts(here, 3)
        z_more, r_more = to.products(last, by_gate[:2])
        update, reset = to.activated(0, z, z_more), to.activated(0, r, r_more)
        if late:
            product = build("MatMul", last, by_gate[2])
            product = product if own is None else build("Add", product, own)
            more = build("Mul", reset, product)
        else:
            more = build("MatMul", build("Mul", reset, last), by_gate[2])
        new = build("Mul", to.less_one(update), to.activated(1, h, more))
        return [build("Add", new, build("Mul", update, last))]

    return Step(run, outer)


CELLS = {
    "RNN": Cell(1, ["Tanh"], False, _rnn),
    "LSTM": Cell(4, ["Sigmoid", "Tanh", "Tanh"], True, _lstm),
    "GRU": Cell(3, ["Sigmoid", "Tanh"], False, _gru),
}
