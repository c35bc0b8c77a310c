"""Ops of random graphs that move elements: transposes, reshapes, slices, joins, gathers."""

from __future__ import annotations

import math

import numpy as np

from support.random_graphs.graphs import MAX_RANK, Graph
from support.random_graphs.values import Value


def transpose(graph: Graph) -> None:
    if value := graph.pick(lambda v: v.rank > 1):
        perm = graph.rng.sample(range(value.rank), value.rank)
        graph.layout("Transpose", lambda x: x.transpose(perm), [value], perm=perm)


def reshape(graph: Graph) -> None:
    """Merge neighbours, split a composite extent, or add and drop unit axes."""
    value = graph.pick()
    shape = list(value.shape)
    for _ in range(graph.rng.randint(1, 3)):
        _change(graph, shape)
    written = list(shape)
    if written and math.prod(shape) and graph.rng.random() < 0.2:
        written[graph.rng.randrange(len(written))] = -1
    _by(graph, "Reshape", value, written, lambda x: x.reshape(shape), allowzero=0 in shape)


def _change(graph: Graph, shape: list[int]) -> None:
    rng, rank = graph.rng, len(shape)
    how = rng.choice(("merge", "split", "unit", "drop"))
    at = rng.randrange(rank) if rank else 0
    if how == "merge" and rank > 1 and at + 1 < rank:
        shape[at : at + 2] = [shape[at] * shape[at + 1]]
    elif how == "split" and rank and rank < MAX_RANK and shape[at] > 1:
        factors = [f for f in range(2, min(shape[at], 65)) if shape[at] % f == 0]
        if factors:
            factor = rng.choice(factors)
            shape[at : at + 1] = [shape[at] // factor, factor]
    elif how == "unit" and rank < MAX_RANK:
        shape.insert(rng.randint(0, rank), 1)
    elif how == "drop" and rank and shape[at] == 1:
        del shape[at]


def unsqueeze(graph: Graph) -> None:
    if value := graph.pick(lambda v: v.rank < MAX_RANK):
        axis = graph.rng.randint(0, value.rank)
        _by(graph, "Unsqueeze", value, [axis], lambda x: np.expand_dims(x, axis))


def squeeze(graph: Graph) -> None:
    if value := graph.pick(lambda v: 1 in v.shape):
        axis = graph.rng.choice([i for i, extent in enumerate(value.shape) if extent == 1])
        _by(graph, "Squeeze", value, [axis], lambda x: np.squeeze(x, axis))


def expand(graph: Graph) -> None:
    value = graph.pick()
    shape = [e if e != 1 else graph.rng.choice((1, 2, 3, 17)) for e in value.shape]
    if len(shape) < MAX_RANK:
        shape = [graph.rng.choice((1, 2, 5))] * graph.rng.randint(0, 1) + shape
    if shape and graph.fits(tuple(shape), value.shape):
        _by(graph, "Expand", value, shape, lambda x: np.broadcast_to(x, shape).copy())


def tile(graph: Graph) -> None:
    if value := graph.pick(lambda v: v.rank and v.dtype != "bool"):
        times = [graph.rng.choice((1, 1, 2, 3)) for _ in value.shape]
        if value.ref.size * math.prod(times) <= graph.limit:
            _by(graph, "Tile", value, times, lambda x: np.tile(x, times))


def concat(graph: Graph) -> None:
    first = graph.pick(lambda v: v.rank)
    if first is None:
        return
    axis = graph.rng.randrange(first.rank)

    def fits(other: Value) -> bool:
        rest = [s[:axis] + s[axis + 1 :] for s in (first.shape, other.shape)]
        return other.dtype == first.dtype and other.rank == first.rank and rest[0] == rest[1]

    parts = [first] + [graph.pick(fits) for _ in range(graph.rng.randint(1, 2))]
    graph.rng.shuffle(parts)
    if sum(part.ref.size for part in parts) <= graph.limit:
        graph.layout("Concat", lambda *xs: np.concatenate(xs, axis), parts, axis=axis)


def slice_(graph: Graph) -> None:
    value = graph.pick(lambda v: v.rank and v.ref.size)
    if value is None:
        return
    axis = graph.rng.randrange(value.rank)
    extent = value.shape[axis]
    start, stop = sorted((graph.rng.randrange(extent), graph.rng.randint(1, extent)))
    stop = max(stop, start + 1)
    step = graph.rng.choice((1, 1, 1, 2, 3, -1, -2))
    if step < 0:
        # From the last element down; an end before the first is written as INT_MIN.
        start, stop = stop - 1, start - 1
    cut = [slice(None)] * value.rank
    cut[axis] = slice(start, stop if stop >= 0 else None, step)
    written = stop if stop >= 0 else -(2**31)
    extra = [graph.constant([number], "int64") for number in (start, written, axis, step)]
    graph.layout("Slice", lambda x: x[tuple(cut)], [value], extra)


def pad(graph: Graph) -> None:
    value = graph.pick(lambda v: v.rank and v.ref.size and v.dtype != "bool")
    if value is None:
        return
    mode = graph.rng.choice(("constant", "constant", "edge", "reflect"))
    room = [min(3, extent - 1) if mode == "reflect" else 3 for extent in value.shape]
    widths = [(graph.rng.randint(0, most), graph.rng.randint(0, most)) for most in room]
    if math.prod(e + sum(w) for e, w in zip(value.shape, widths, strict=True)) > graph.limit:
        return
    before, after = zip(*widths, strict=True)
    extra = [graph.constant([*before, *after], "int64")]
    fill = {}
    if mode == "constant":
        fill = {"constant_values": graph.rng.choice((0, 1, -2))}
        extra.append(graph.constant(fill["constant_values"], value.dtype))
    graph.layout("Pad", lambda x: np.pad(x, widths, mode, **fill), [value], extra, mode=mode)


def gather(graph: Graph) -> None:
    """Take rows by constant indices, or by indices that are a graph input."""
    value = graph.pick(lambda v: v.rank and v.ref.size)
    if value is None:
        return
    axis = graph.rng.randrange(value.rank)
    extent = value.shape[axis]
    shape = graph.rng.choice(((), (1,), (2,), (7,), (3, 5)))
    total = value.ref.size // extent * math.prod(shape)
    if total > graph.limit or value.rank - 1 + len(shape) > MAX_RANK:
        return
    low = -extent if graph.rng.random() < 0.3 else 0
    indices = graph.noise.integers(low, extent, shape)
    result = np.take(np.empty(value.shape, bool), indices, axis)
    assert result.ndim <= MAX_RANK
    extra = [graph.constant(indices, "int64")]
    if graph.rng.random() < 0.3:
        index = graph.initializers.pop()
        index.name = f"x{len(graph.inputs)}"
        graph.inputs.append(index)
    graph.layout("Gather", lambda x: np.take(x, indices, axis), [value], extra, axis=axis)


def _by(graph: Graph, op: str, value: Value, numbers, function, **attrs) -> None:
    """Append an op whose second input is a list of integers."""
    graph.layout(op, function, [value], [graph.constant(numbers, "int64")], **attrs)


LAYOUTS = (
    transpose,
    reshape,
    reshape,
    unsqueeze,
    squeeze,
    expand,
    tile,
    concat,
    slice_,
    pad,
    gather,
)
