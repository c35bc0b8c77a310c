"""PyTorch's LSTM, GRU and RNN as loops over a step: relay_passes.recurrence has the markers.

PyTorch's own decompositions write all steps out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import fx
from tvm import relax
from tvm.relax.frontend.torch.base_fx_graph_translator import BaseFXGraphImporter

from relay_passes.recurrence.markers import Marker

Emit = Callable[[relax.Expr], relax.Var]
State = list[relax.Expr]
# What a step makes of the inputs' part, its state, and the state's products.
Cell = Callable[[Emit, relax.Expr, State, "_Direction"], State]


@dataclass(frozen=True)
class _Direction:
    """The weights of one direction of one layer; `projection` is of LSTMs that have one."""

    inputs: relax.Expr
    state: relax.Expr
    input_bias: relax.Expr | None
    state_bias: relax.Expr | None
    projection: relax.Expr | None
    gates: int

    @property
    def hidden(self) -> int:
        return _shape(self.state)[0] // self.gates

    def products(self, emit: Emit, state: relax.Expr) -> list[relax.Expr]:
        """Return what each gate takes of a state, by a product of its own."""
        size = self.hidden
        return [
            _product(emit, state, _rows(emit, self.state, at * size, size))
            for at in range(self.gates)
        ]

    def parts(self, emit: Emit, here: relax.Expr) -> list[relax.Expr]:
        """Return the gates' columns of what a step's input makes of all."""
        size = self.hidden
        return [_columns(emit, here, at * size, size) for at in range(self.gates)]


def _lstm_cell(emit: Emit, here: relax.Expr, state: State, own: _Direction) -> State:
    hidden, memory = state
    pairs = zip(own.parts(emit, here), own.products(emit, hidden), strict=True)
    i, f, g, o = (emit(relax.op.add(*pair)) for pair in pairs)
    i, f, o = (emit(relax.op.sigmoid(gate)) for gate in (i, f, o))
    new = emit(relax.op.multiply(i, emit(relax.op.tanh(g))))
    memory = emit(relax.op.add(emit(relax.op.multiply(f, memory)), new))
    hidden = emit(relax.op.multiply(o, emit(relax.op.tanh(memory))))
    if own.projection is not None:
        hidden = _product(emit, hidden, own.projection)
    return [hidden, memory]


def _gru_cell(emit: Emit, here: relax.Expr, state: State, own: _Direction) -> State:
    (last,) = state
    r, z, n = own.parts(emit, here)
    r_more, z_more, n_more = own.products(emit, last)
    reset, update = (
        emit(relax.op.sigmoid(emit(relax.op.add(*pair)))) for pair in ((r, r_more), (z, z_more))
    )
    if own.state_bias is not None:
        own_bias = _rows(emit, own.state_bias, 2 * own.hidden, own.hidden)
        n_more = emit(relax.op.add(n_more, own_bias))
    new = emit(relax.op.tanh(emit(relax.op.add(n, emit(relax.op.multiply(reset, n_more))))))
    change = emit(relax.op.multiply(update, emit(relax.op.subtract(last, new))))
    return [emit(relax.op.add(new, change))]


def _rnn_cell(
    emit: Emit, here: relax.Expr, state: State, own: _Direction, activation: Callable
) -> State:
    (product,) = own.products(emit, state[0])
    return [emit(activation(emit(relax.op.add(here, product))))]


_CELLS: dict[str, tuple[int, Cell]] = {
    "lstm.input": (4, _lstm_cell),
    "gru.input": (3, _gru_cell),
    "rnn_tanh.input": (1, functools.partial(_rnn_cell, activation=relax.op.tanh)),
    "rnn_relu.input": (1, functools.partial(_rnn_cell, activation=relax.op.nn.relu)),
}
RECURRENT_OPS = tuple(getattr(torch.ops.aten, name.partition(".")[0]).input for name in _CELLS)


def recurrent(node: fx.Node, importer: BaseFXGraphImporter, op: str) -> relax.Expr:
    """rewrite: lstm(x, h, w) -> xw = x @ w; for each step t: h, c = cell(xw[t], h, c)"""
    emit = importer.block_builder.emit
    x, first, given, has_biases, layers, _, _, both, batch_first = node.args
    x = importer.env[x]
    states = [importer.env[s] for s in (first if isinstance(first, list | tuple) else [first])]
    weights = [importer.env[weight] for weight in given]
    if batch_first:
        x = emit(relax.op.permute_dims(x, [1, 0, 2]))
    directions = 2 if both else 1
    each = len(weights) // (layers * directions)
    finals: list[State] = []
    for layer in range(layers):
        made = []
        for way in range(directions):
            number = layer * directions + way
            own = _direction(weights[number * each : (number + 1) * each], has_biases, op)
            start = [_at(emit, state, number) for state in states]
            name = f"{node.name}_{number}"
            stack, last = _loop(emit, x, own, start, name, way == 1, op)
            made.append(stack)
            finals.append(last)
        x = made[0] if len(made) == 1 else emit(relax.op.concat(made, axis=2))
    if batch_first:
        x = emit(relax.op.permute_dims(x, [1, 0, 2]))
    last = [emit(relax.op.stack([final[n] for final in finals], 0)) for n in range(len(states))]
    return relax.Tuple([x, *last])


def _direction(weights: Sequence[relax.Expr], has_biases: bool, op: str) -> _Direction:
    biases = weights[2:4] if has_biases else [None, None]
    rest = weights[4:] if has_biases else weights[2:]
    return _Direction(*weights[:2], *biases, rest[0] if rest else None, _CELLS[op][0])


def _loop(
    emit: Emit,
    x: relax.Expr,
    own: _Direction,
    first: State,
    name: str,
    backwards: bool,
    op: str,
) -> tuple[relax.Expr, State]:
    """Return the states of all steps, and the last ones."""
    steps, batch, depth = _shape(x)
    rows = emit(relax.op.reshape(x, [steps * batch, depth]))
    sums = _product(emit, rows, own.inputs)
    for bias in (own.input_bias, _outer_bias(emit, own, op)):
        sums = sums if bias is None else emit(relax.op.add(sums, bias))
    sums = emit(relax.op.reshape(sums, [steps, batch, own.gates * own.hidden]))
    part = relax.TensorType([batch, own.gates * own.hidden], sums.ty.dtype.dtype)
    here = emit(Marker("each", name, 0, (backwards,)).call([sums], [part]))
    state = [
        emit(Marker("carry", name, n).call([value], [value.ty])) for n, value in enumerate(first)
    ]
    new = _CELLS[op][1](emit, here, state, own)
    stack = relax.TensorType([steps, *_shape(new[0])], new[0].ty.dtype.dtype)
    marker = Marker("end", name, steps, (backwards,))
    end = emit(marker.call([*new, new[0]], [*(s.ty for s in state), stack]))
    fields = [emit(relax.TupleGetItem(end, n)) for n in range(len(new) + 1)]
    return fields[-1], fields[:-1]


def _outer_bias(emit: Emit, own: _Direction, op: str) -> relax.Expr | None:
    """Return what of the state's bias is the same whatever the gates: a GRU resets the last third.

    Zeros are added to that.
    """
    if own.state_bias is None or op != "gru.input":
        return own.state_bias
    kept = _rows(emit, own.state_bias, 0, 2 * own.hidden)
    return emit(relax.op.nn.pad(kept, [0, own.hidden]))


def _product(emit: Emit, x: relax.Expr, weight: relax.Expr) -> relax.Expr:
    """Return x @ weight.T."""
    return emit(relax.op.matmul(x, emit(relax.op.permute_dims(weight, [1, 0]))))


def _rows(emit: Emit, value: relax.Expr, low: int, count: int) -> relax.Expr:
    if count == _shape(value)[0]:
        return value
    return emit(relax.op.strided_slice(value, [0], [low], [low + count]))


def _columns(emit: Emit, value: relax.Expr, low: int, count: int) -> relax.Expr:
    if count == _shape(value)[1]:
        return value
    return emit(relax.op.strided_slice(value, [1], [low], [low + count]))


def _at(emit: Emit, value: relax.Expr, number: int) -> relax.Expr:
    part = emit(relax.op.strided_slice(value, [0], [number], [number + 1]))
    return emit(relax.op.squeeze(part, [0]))


def _shape(value: relax.Expr) -> list[int]:
    return [int(extent) for extent in value.ty.shape.values]


RECURRENT = {name: functools.partial(recurrent, op=name) for name in _CELLS}
