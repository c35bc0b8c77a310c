"""Operators that move elements: shapes, slices, gathers, scatters, pads."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from .draw import FLOATS, INTS, MOST_ELEMENTS, Draw, Node, Operand, Operator, ints

ALL = (*FLOATS, *INTS, "bool")


def _reshape(draw: Draw, x: np.ndarray) -> Node:
    rest, shape = x.size, []
    while rest > 1 and len(shape) < 4:
        extent = draw.choice([n for n in range(1, rest + 1) if rest % n == 0])
        shape.append(extent)
        rest //= extent
    shape.append(rest)
    if draw.maybe():
        shape[draw.randrange(len(shape))] = -1
    return Node("Reshape", [ints(*shape)], exact=True)


def _transpose(draw: Draw, x: np.ndarray) -> Node:
    order = draw.sample(range(x.ndim), x.ndim)
    return Node("Transpose", attrs={"perm": order} if draw.maybe(0.8) else {}, exact=True)


def _flatten(draw: Draw, x: np.ndarray) -> Node:
    return Node("Flatten", attrs={"axis": draw.randint(-x.ndim, x.ndim)}, exact=True)


def _squeeze(draw: Draw, x: np.ndarray) -> Node | None:
    ones = [axis for axis, extent in enumerate(x.shape) if extent == 1]
    if not ones:
        return None
    chosen = draw.sample(ones, draw.randint(1, len(ones)))
    return Node("Squeeze", [ints(*chosen)] if draw.maybe() else [], exact=True)


def _unsqueeze(draw: Draw, x: np.ndarray) -> Node:
    rank = x.ndim + draw.randint(1, 2)
    chosen = draw.sample(range(rank), rank - x.ndim)
    axes = [axis - rank if draw.maybe(0.3) else axis for axis in chosen]
    return Node("Unsqueeze", [ints(*axes)], exact=True)


def _expand(draw: Draw, x: np.ndarray) -> Node | None:
    shape = [draw.choice([1, 2, 3]) if e == 1 else draw.choice([1, e]) for e in x.shape]
    shape = [*(draw.choice([1, 2]) for _ in range(draw.randint(0, 1))), *shape]
    full = math.prod(max(pair) for pair in zip(shape[::-1], x.shape[::-1], strict=False))
    return Node("Expand", [ints(*shape)], exact=True) if full <= MOST_ELEMENTS else None


def _tile(draw: Draw, x: np.ndarray) -> Node | None:
    repeats = [draw.choice([1, 1, 2, 3]) for _ in x.shape]
    if x.size * math.prod(repeats) > MOST_ELEMENTS:
        return None
    return Node("Tile", [ints(*repeats)], exact=True)


def _concat(draw: Draw, x: np.ndarray) -> Node:
    axis, others = draw.axis(x.ndim), []
    for _ in range(draw.randint(0, 3)):
        shape = list(x.shape)
        shape[axis] = draw.choice([1, 2, 5])
        others.append(Operand(draw.array(shape, str(x.dtype)), draw.maybe()))
    return Node("Concat", others, {"axis": axis}, exact=True)


def _split(draw: Draw, x: np.ndarray) -> Node:
    axis, rest, sizes = draw.axis(x.ndim), 0, []
    rest = x.shape[axis]
    while rest and len(sizes) < 3:
        sizes.append(draw.randint(1, rest))
        rest -= sizes[-1]
    if rest:
        sizes.append(rest)
    return Node("Split", [ints(*sizes)], {"axis": axis}, len(sizes), exact=True)


def _slice(draw: Draw, x: np.ndarray) -> Node:
    axes = draw.axes(x.ndim)
    starts, ends, steps = [], [], []
    for axis in axes:
        extent = x.shape[axis]
        starts.append(draw.randint(-extent - 2, extent + 1))
        ends.append(draw.randint(-extent - 3, extent + 2))
        steps.append(draw.choice([1, 1, 2, 3, -1, -2]))
    given = [ints(*starts), ints(*ends), ints(*axes), ints(*steps)]
    return Node("Slice", given, exact=True)


def _pad(draw: Draw, x: np.ndarray) -> Node:
    mode = draw.choice(["constant", "edge", "reflect", "wrap"])
    most = [min(e - 1 if mode == "reflect" else e, 3) for e in x.shape]
    pads = [draw.randint(0, n) for n in (*most, *most)]
    value = [Operand(np.array(2, x.dtype), True)] if mode == "constant" and draw.maybe() else []
    return Node("Pad", [ints(*pads), *value], {"mode": mode}, exact=True)


def _indices(draw: Draw, shape: tuple[int, ...], extent: int) -> Operand:
    array = draw.array(shape, "int64", -extent, extent - 1)
    return Operand(array.astype(draw.choice(["int32", "int64"])), draw.maybe(0.3))


def _gather(draw: Draw, x: np.ndarray) -> Node:
    axis = draw.axis(x.ndim)
    chosen = _indices(draw, draw.choice([(), (3,), (2, 2)]), x.shape[axis])
    return Node("Gather", [chosen], {"axis": axis}, exact=True)


def _gather_elements(draw: Draw, x: np.ndarray) -> Node:
    axis = draw.axis(x.ndim)
    shape = [draw.randint(1, extent) for extent in x.shape]
    shape[axis] = draw.randint(1, 5)
    chosen = _indices(draw, tuple(shape), x.shape[axis])
    return Node("GatherElements", [chosen], {"axis": axis}, exact=True)


def _rows(draw: Draw, x: np.ndarray, depth: int, unique: bool) -> np.ndarray | None:
    """Return positions along the first axes, as many as a scatter or gather takes."""
    extents = x.shape[:depth]
    count = draw.randint(1, min(4, math.prod(extents)))
    flat = draw.sample(range(math.prod(extents)), count) if unique else None
    if flat is None:
        flat = [draw.randrange(math.prod(extents)) for _ in range(count)]
    return np.stack(np.unravel_index(flat, extents), -1).astype(np.int64)


def _gather_nd(draw: Draw, x: np.ndarray) -> Node:
    rows = _rows(draw, x, draw.randint(1, x.ndim), unique=False)
    return Node("GatherND", [Operand(rows, draw.maybe(0.3))], exact=True)


def _scatter_nd(draw: Draw, x: np.ndarray) -> Node:
    depth = draw.randint(1, x.ndim)
    kind = draw.choice(["none", "add", "mul", "max", "min"])
    rows = _rows(draw, x, depth, unique=True)
    updates = draw.array((len(rows), *x.shape[depth:]), str(x.dtype))
    given = [Operand(rows, draw.maybe(0.3)), Operand(updates, draw.maybe(0.3))]
    return Node("ScatterND", given, {"reduction": kind}, exact=kind in ("none", "max", "min"))


def _scatter_elements(draw: Draw, x: np.ndarray) -> Node:
    axis, kind = draw.axis(x.ndim), draw.choice(["none", "add", "mul", "max", "min"])
    shape = [draw.randint(1, extent) for extent in x.shape]
    shape[axis] = 1  # one each: of several the last would win
    chosen = draw.array(shape, "int64", -x.shape[axis], x.shape[axis] - 1)
    updates = Operand(draw.array(shape, str(x.dtype)), draw.maybe(0.3))
    given = [Operand(chosen, draw.maybe(0.3)), updates]
    exact = kind in ("none", "max", "min")
    return Node("ScatterElements", given, {"axis": axis, "reduction": kind}, exact=exact)


def _triangle(draw: Draw, x: np.ndarray) -> Node:
    k = [Operand(np.array(draw.randint(-3, 3), np.int64), True)] if draw.maybe() else []
    return Node("Trilu", k, {"upper": draw.randint(0, 1)}, exact=True)


def _one_hot(draw: Draw, x: np.ndarray) -> Node | None:
    depth = draw.randint(1, 6)
    if x.size * depth > MOST_ELEMENTS:
        return None
    values = Operand(np.array([0.5, 2], np.float32), True)
    given = [Operand(np.array(depth, np.int64), True), values]
    return Node("OneHot", given, {"axis": draw.randint(-x.ndim - 1, x.ndim)}, exact=True)


def _shuffle(draw: Draw, x: np.ndarray, op: str) -> Node | None:
    size = draw.choice([1, 2])
    divides = (
        x.shape[1] % size**2 if op == "DepthToSpace" else x.shape[2] % size + x.shape[3] % size
    )
    if divides:
        return None
    mode = {"mode": draw.choice(["DCR", "CRD"])} if op == "DepthToSpace" else {}
    return Node(op, attrs={"blocksize": size, **mode}, exact=True)


def _reverse(draw: Draw, x: np.ndarray) -> Node:
    time = draw.randint(0, 1)
    lengths = draw.array((x.shape[1 - time],), "int64", 1, x.shape[time])
    attrs = {"time_axis": time, "batch_axis": 1 - time}
    return Node("ReverseSequence", [Operand(lengths, draw.maybe(0.3))], attrs, exact=True)


def _plain(_: Draw, x: np.ndarray, op: str) -> Node:
    return Node(op, exact=True)


OPERATORS: dict[str, Operator] = {
    "Reshape": Operator(_reshape, ALL),
    "Transpose": Operator(_transpose, ALL, 1),
    "Flatten": Operator(_flatten, ALL, 1),
    "Squeeze": Operator(_squeeze, ALL, 1),
    "Unsqueeze": Operator(_unsqueeze, ALL),
    "Expand": Operator(_expand, ALL),
    "Tile": Operator(_tile, ALL, 1),
    "Concat": Operator(_concat, ALL, 1),
    "Split": Operator(_split, ALL, 1),
    "Slice": Operator(_slice, ALL, 1),
    "Pad": Operator(_pad, (*FLOATS, "int32", "int64"), 1),
    "Gather": Operator(_gather, ALL, 1),
    "GatherElements": Operator(_gather_elements, ALL, 1),
    "GatherND": Operator(_gather_nd, ALL, 1),
    "ScatterND": Operator(_scatter_nd, ("float32", "float64", "int32"), 1),
    "ScatterElements": Operator(_scatter_elements, ("float32", "float64", "int32"), 1),
    "Trilu": Operator(_triangle, ALL, 2),
    "OneHot": Operator(_one_hot, ("int32", "int64"), 1),
    **{op: Operator(partial(_shuffle, op=op), FLOATS, 4)
       for op in ("DepthToSpace", "SpaceToDepth")},
    "ReverseSequence": Operator(_reverse, FLOATS, 2),
    **{op: Operator(partial(_plain, op=op), ALL) for op in ("Shape", "Size")},
}  # fmt: skip
