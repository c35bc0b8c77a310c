"""Reductions of random graphs over random axes, and softmax."""

from __future__ import annotations

import numpy as np

from support.random_graphs import values as rv
from support.random_graphs.graphs import Graph
from support.random_graphs.values import Value

_SAFE = 1e30  # partial sums in any order stay finite in float32
_SAFE_BITS = 100  # so do partial products

SUMS = {
    "ReduceSum": np.sum,
    "ReduceMean": np.mean,
    "ReduceL1": lambda x, **where: np.abs(x).sum(**where),
    "ReduceSumSquare": lambda x, **where: np.square(x).sum(**where),
    "ReduceL2": lambda x, **where: np.sqrt(np.square(x).sum(**where)),
    "ReduceProd": np.prod,
}
CHOICES = {"ReduceMax": np.max, "ReduceMin": np.min}
_OF_NOTHING = ("ReduceSum", "ReduceL1", "ReduceSumSquare", "ReduceProd")


def axes_of(graph: Graph, value: Value) -> tuple[int, ...]:
    """Draw one or more axes of a value of rank 1 or higher."""
    count = min(value.rank, graph.rng.choice((1, 1, 1, 2, 2, 3, 5)))
    return tuple(sorted(graph.rng.sample(range(value.rank), count)))


def reduce(graph: Graph, op: str, value: Value, axes: tuple[int, ...], keepdims: int) -> Value:
    """Append a reduction; `axes` are written with either sign."""
    where = {"axis": axes, "keepdims": bool(keepdims)}
    sign = graph.rng.choice((0, value.rank))
    extra = [graph.constant(np.array(axes) - sign, "int64")]
    if op in CHOICES or not value.is_float:
        function = (CHOICES | SUMS)[op]

        def exact(x: np.ndarray) -> np.ndarray:
            return function(x, **where).astype(x.dtype)

        return graph.select(op, exact, [value], extra=extra, keepdims=keepdims)
    return graph.rounded(
        op,
        lambda x: SUMS[op](x, **where),
        [value],
        extra=extra,
        accumulates=True,
        keepdims=keepdims,
    )


def accumulate(graph: Graph) -> None:
    """Sum, mean, norm or product."""
    op = graph.rng.choice(sorted(SUMS))
    value = graph.pick(lambda v: v.rank and _may_sum(v, op))
    if value is None:
        return
    axes = axes_of(graph, value)
    empty = any(value.shape[axis] == 0 for axis in axes)
    if not empty or op in _OF_NOTHING:
        reduce(graph, op, value, axes, graph.rng.randint(0, 1))


def extreme(graph: Graph) -> None:
    """Max or min."""
    value = graph.pick(lambda v: v.rank and v.dtype != "bool")
    if value is None:
        return
    axes = axes_of(graph, value)
    if all(value.shape[axis] for axis in axes):
        reduce(graph, graph.rng.choice(sorted(CHOICES)), value, axes, graph.rng.randint(0, 1))


def softmax(graph: Graph) -> None:
    value = graph.pick(lambda v: v.is_float and v.rank and rv.largest(v) < _SAFE)
    if value is None:
        return
    axis = graph.rng.randrange(value.rank)
    if value.shape[axis] == 0:
        return

    def probabilities(x: np.ndarray) -> np.ndarray:
        powers = np.exp(x - x.max(axis, keepdims=True))
        return powers / powers.sum(axis, keepdims=True)

    def logarithms(x: np.ndarray) -> np.ndarray:
        shifted = x - x.max(axis, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))

    op, function = graph.rng.choice((("Softmax", probabilities), ("LogSoftmax", logarithms)))
    graph.rounded(op, function, [value], axis=axis)


def _may_sum(value: Value, op: str) -> bool:
    """Return whether no order of summation overflows where another does not."""
    magnitudes = rv.finite(value)
    if value.dtype == "bool":
        return False
    if not value.is_float:
        return op == "ReduceSum" and float(magnitudes.sum(dtype="f8")) < 2**30
    if op == "ReduceProd":
        bits = np.log2(magnitudes[magnitudes > 0])
        return float(np.abs(bits).sum()) < _SAFE_BITS
    power = 2 if op in ("ReduceSumSquare", "ReduceL2") else 1
    return float(np.sum(magnitudes**power)) < _SAFE


REDUCTIONS = (accumulate, extreme, softmax)
