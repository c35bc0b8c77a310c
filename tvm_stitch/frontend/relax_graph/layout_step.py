"""Operators that move, reshape, cut or pad a weight, and what they make of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm import relax, te, tirx, topi

from relay_passes.rewrites.weights import static_shape


@dataclass(frozen=True)
class LayoutStep:
    """`numbers` are the order of axes of a "permute", the shape of a "reshape", the widths of a
    "pad" with zeros before and after each axis, or where a "cut" begins and ends along each.
    """

    kind: str
    numbers: tuple[int, ...]

    @property
    def moves(self) -> bool:
        """Return whether the elements lie elsewhere afterwards."""
        return self.kind != "reshape"

    def array(self, array: np.ndarray) -> np.ndarray:
        if self.kind == "permute":
            return np.asarray(array.transpose(self.numbers), order="C")
        if self.kind == "cut":
            pairs = zip(self.numbers[::2], self.numbers[1::2], strict=True)
            return np.asarray(array[tuple(slice(low, high) for low, high in pairs)], order="C")
        if self.kind == "pad":
            return np.pad(array, list(zip(self.numbers[::2], self.numbers[1::2], strict=True)))
        return array.reshape(self.numbers)

    def tensor(self, x: te.Tensor) -> te.Tensor:
        if self.kind == "permute":
            return topi.transpose(x, list(self.numbers))
        if self.kind == "cut":
            return topi.strided_slice(x, list(self.numbers[::2]), list(self.numbers[1::2]))
        if self.kind == "pad":
            zero = tirx.const(0, x.dtype)
            return topi.nn.pad(x, list(self.numbers[::2]), list(self.numbers[1::2]), zero)
        return topi.reshape(x, list(self.numbers))


def layout_step(value: relax.Expr) -> LayoutStep | None:
    """Return the step that an operator makes of its first argument; None if it is none.

    Shapes must be static.
    """
    if not isinstance(value, relax.Call) or not value.args:
        return None
    before, after = static_shape(value.args[0]), static_shape(value)
    if before is None or after is None:
        return None
    match getattr(value.op, "name", ""):
        case "relax.permute_dims":
            axes = value.attrs.axes
            rank = len(before)
            order = range(rank)[::-1] if axes is None else (int(axis) % rank for axis in axes)
            return LayoutStep("permute", tuple(order))
        case "relax.reshape" | "relax.expand_dims" | "relax.squeeze" | "relax.flatten":
            return LayoutStep("reshape", after)
        case "relax.nn.pad" if value.attrs.pad_mode == "constant" and value.attrs.pad_value == 0:
            return LayoutStep("pad", tuple(map(int, value.attrs.pad_width)))
        case "relax.strided_slice":
            return _cut(value, before)
    return None


def _cut(value: relax.Call, shape: tuple[int, ...]) -> LayoutStep | None:
    """Return the step of a slice that leaves nothing out between its ends."""
    lists = [[getattr(n, "value", None) for n in arg.fields] for arg in value.args[1:]]
    if any(not isinstance(n, int) for each in lists for n in each):
        return None
    axes, begins, ends, *strides = lists
    if any(stride != 1 for each in strides for stride in each):
        return None
    bounds = [(0, extent) for extent in shape]
    for axis, begin, end in zip(axes, begins, ends, strict=True):
        low, high, _ = slice(begin, end).indices(shape[axis])
        bounds[axis] = low, max(low, high)
    return LayoutStep("cut", tuple(n for pair in bounds for n in pair))
