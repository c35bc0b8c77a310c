"""The range of integer inputs that index an axis, for models that came as Relax.

Kernels clamp what they index by, so that none leaves its tensor; here inputs that are indices get
bounds, which the runtime checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tvm import relax

from relay_passes.rewrites.weights import static_shape
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.relax_graph.values import Values, is_integer, op_name

# Operators whose results hold every element of their first argument, and no other.
PRESERVING = {f"relax.{name}" for name in ("astype", "broadcast_to", "concat", "expand_dims",
              "flatten", "flip", "permute_dims", "repeat", "reshape", "squeeze",
              "tile")}  # fmt: skip
Bounds = tuple[int, int]
_Range = tuple[relax.Expr, int, int]


def bound_inputs(
    main: relax.Function, names: Sequence[str], values: Values, given: object
) -> dict[str, Bounds]:
    """Return the inclusive bounds of each input all of whose elements are indices, the tightest.

    `names` are those of the first parameters.
    Raises: StitchError if an index that is no input lies outside its axis.
    """
    tracer = _Tracer(dict(zip(main.params, names, strict=False)), values, given)
    for value in values.bindings.values():
        for index, low, high in _indices(value, values):
            tracer.require(index, low, high)
    return tracer.bounds


def _indices(value: relax.Expr, values: Values) -> list[_Range]:
    """Return what a call indexes its first argument by, and the range that this must lie in."""
    name = op_name(value)
    shape = static_shape(value.args[0]) if name in _READERS else None
    if shape is None:
        return []
    found = []
    for index, extents in _READERS[name](value, shape, values):
        elements = static_shape(index)
        if extents and elements is not None and 0 not in elements:
            low = -max(extents) if name in _FROM_END else 0
            found.append((index, low, max(extents) - 1))
    return found


def _taken(call: relax.Call, shape: tuple[int, ...], _values: Values) -> list:
    if call.attrs.mode != "fast":
        return []  # the others give any index a meaning
    axis = call.attrs.axis
    return [(call.args[1], [int(np.prod(shape)) if axis is None else shape[int(axis)]])]


def _along_axis(call: relax.Call, shape: tuple[int, ...], _values: Values) -> list:
    return [(call.args[1], [shape[int(call.attrs.axis)]])]


def _by_columns(call: relax.Call, shape: tuple[int, ...], values: Values) -> list:
    """Return each column of the indices, if they were put together of columns, or all of them."""
    index, start = call.args[1], int(getattr(call.attrs, "batch_dims", 0))
    rows = static_shape(index)
    if not rows:
        return []
    extents = shape[start : start + rows[-1]]
    made = values(index)
    if op_name(made) == "relax.concat" and int(made.attrs.axis) in (-1, len(rows) - 1):
        parts = values(made.args[0])
        single = isinstance(parts, relax.Tuple) and all(
            (static_shape(part) or (0,))[-1] == 1 for part in parts.fields
        )
        if single:
            return [(part, [extent]) for part, extent in zip(parts.fields, extents, strict=True)]
    return [(index, extents)]


def _by_several(call: relax.Call, shape: tuple[int, ...], values: Values) -> list:
    given = values(call.args[1])
    fields = given.fields if isinstance(given, relax.Tuple) else []
    return [(index, [extent]) for index, extent in zip(fields, shape, strict=False)]


_READERS = {
    "relax.take": _taken,
    "relax.gather_elements": _along_axis,
    "relax.gather_nd": _by_columns,
    "relax.index_tensor": _by_several,
    "relax.index_put": _by_several,
    "relax.scatter_elements": _along_axis,
    "relax.scatter_nd": _by_columns,
}
_FROM_END = ("relax.index_tensor", "relax.index_put", "relax.scatter_elements", "relax.scatter_nd")


class _Tracer:
    """Propagates a required range from an index towards the inputs."""

    def __init__(self, inputs: Mapping[relax.Var, str], values: Values, given: object) -> None:
        self._inputs, self._values, self._given = inputs, values, given
        self.bounds: dict[str, Bounds] = {}

    def require(self, expr: relax.Expr, low: int, high: int) -> None:
        """Record what inputs must lie in for `expr` to lie between `low` and `high`."""
        waiting = [(expr, low, high)]
        while waiting:
            expr, low, high = waiting.pop()
            value = self._values(expr)
            if value in self._inputs:
                if is_integer(value):
                    had = self.bounds.get(self._inputs[value], (low, high))
                    self.bounds[self._inputs[value]] = max(had[0], low), min(had[1], high)
            elif (array := self._values.integers(value)) is not None:
                self._check(array, low, high)
            elif isinstance(value, relax.Tuple):
                waiting.extend((part, low, high) for part in value.fields)
            elif isinstance(value, relax.Var) and value in self._values.bindings:
                waiting.append((value, low, high))
            elif isinstance(value, relax.Call):
                waiting.extend(self._sources(value, low, high))

    def _sources(self, call: relax.Call, low: int, high: int) -> list[_Range]:
        """Return what must hold of other values for a call's to lie in the range."""
        name = op_name(call)
        if name in PRESERVING:
            keeps = name != "relax.astype" or is_integer(call.args[0])
            return [(call.args[0], low, high)] if keeps else []
        if name in ("relax.add", "relax.subtract"):
            array = self._values.integers(call.args[1])
            if array is None or array.size != 1:
                return []
            shift = int(array.item()) * (1 if name == "relax.add" else -1)
            return [(call.args[0], low - shift, high - shift)]
        if name == "relax.where" and low == 0 and (size := self._from_end(call)) is not None:
            return [(call.args[2], -size, high)]
        return []

    def _from_end(self, call: relax.Call) -> int | None:
        """Return n of where(x < 0, x + n, x), the largest of several."""
        condition, shifted, x = map(self._values, call.args)
        if [op_name(condition), op_name(shifted)] != ["relax.less", "relax.add"]:
            return None
        sides = (condition.args[0], shifted.args[0])
        zero, size = (
            self._values.integers(condition.args[1]),
            self._values.integers(shifted.args[1]),
        )
        if zero is None or size is None or zero.any() or not size.size:
            return None
        same = all(self._values(side).same_as(x) for side in sides)
        return int(size.max()) if same else None

    def _check(self, array: np.ndarray, low: int, high: int) -> None:
        if (
            array.dtype.kind in "iu"
            and array.size
            and not (low <= array.min() and array.max() <= high)
        ):
            raise StitchError(
                f"{self._given}, constant index",
                f"it holds {array.min()} to {array.max()}, outside {low} to {high}",
                "export the model again",
            )
