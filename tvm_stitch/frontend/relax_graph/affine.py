"""What is multiplied with and added to a product's result, a number for each of its channels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from tvm import relax

from relay_passes.rewrites.convolution import SPATIAL, TRANSPOSED
from relay_passes.rewrites.weights import static_shape

# Readers of a variable; None is the function's result.
Readers = dict[relax.Var, list[relax.Binding | None]]
Array = Callable[[relax.Expr], np.ndarray | None]

_FLOATS = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class Weight:
    """A product's argument `position`, and the `axis` of the result whose elements it gives."""

    position: int
    axis: int

    def scaled(self, call: relax.Call, array: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return the weight, in float64, whose product is scaled along the axis."""
        ins, outs, groups = self._axes(call, array)
        pairs = np.repeat(scale.reshape(groups, -1), array.shape[ins] // groups, axis=0)
        others = [axis for axis in range(array.ndim) if axis not in (ins, outs)]
        return array.astype(np.float64) * np.expand_dims(pairs if ins < outs else pairs.T, others)

    def peaks(self, call: relax.Call, array: np.ndarray) -> np.ndarray:
        """Return the largest magnitude that the weight has for each element of the axis."""
        ins, outs, groups = self._axes(call, array)
        pairs = np.abs(np.moveaxis(array.astype(np.float64), (ins, outs), (0, 1)))
        split = (groups, array.shape[ins] // groups, array.shape[outs], -1)
        return pairs.reshape(split).max(axis=(1, 3), initial=0).reshape(-1)

    def _axes(self, call: relax.Call, array: np.ndarray) -> tuple[int, int, int]:
        """Return the weight's axes of inputs and outputs, and how many groups the former holds."""
        if call.op.name == "relax.matmul":
            first, second = array.ndim - 2, array.ndim - 1
            return (first, second, 1) if self.position else (second, first, 1)
        layout = call.attrs.kernel_layout
        # A transposed kernel's outputs are those of one group, its inputs those of all.
        groups = int(call.attrs.groups) if call.op.name in TRANSPOSED else 1
        return layout.index("I"), layout.index("O"), groups


@dataclass(frozen=True)
class Affine:
    """A product whose only readers, in a row, make `scale` * product + `shift` of it.

    Both are float64, a number for each element of the result's `weight.axis`; `last` is what the
    last reader is bound to, `between` the others and the product. `shifts`: whether one adds.
    """

    call: relax.Call
    weight: Weight
    scale: np.ndarray
    shift: np.ndarray
    between: tuple[relax.Var, ...]
    last: relax.Var
    shifts: bool


def readers(main: relax.Function) -> Readers:
    found: Readers = defaultdict(list)
    for block in main.body.blocks:
        for binding in block.bindings:
            for var in relax.analysis.free_vars(binding.value):
                found[var].append(binding)
    for var in relax.analysis.free_vars(main.body.body):
        found[var].append(None)
    return found


def weights_of(call: relax.Call) -> Iterator[Weight]:
    """Yield the arguments of a product of floats that may be scaled in its result's place."""
    name, shape = getattr(call.op, "name", ""), static_shape(call)
    if shape is None or str(call.ty.dtype) not in _FLOATS:
        return
    if name == "relax.matmul" and all(len(static_shape(a) or ()) > 1 for a in call.args):
        yield Weight(1, len(shape) - 1)
        yield Weight(0, len(shape) - 2)
    elif name in SPATIAL or name in TRANSPOSED:
        layouts = call.attrs.out_layout or call.attrs.data_layout, call.attrs.kernel_layout
        if all(layout.isupper() for layout in layouts):  # no blocked one
            yield Weight(1, layouts[0].index("C"))


def affine(
    binding: relax.VarBinding, weight: Weight, reads: Readers, array: Array
) -> Affine | None:
    """Return what is made of a product, None if nothing scales it."""
    call, vars_ = binding.value, [binding.var]
    shape, dtype = static_shape(call), call.ty.dtype
    channels = shape[weight.axis]
    scale, shift = np.ones(channels), np.zeros(channels)
    scales = shifts = False
    while len(reads[vars_[-1]]) == 1:
        (reader,) = reads[vars_[-1]]
        step = _step(reader, vars_[-1], array)
        if step is None or static_shape(reader.value) != shape or reader.var.ty.dtype != dtype:
            break
        name, number = step[0], _per_channel(step[1], len(shape), weight.axis, channels)
        if number is None:
            break
        with np.errstate(all="ignore"):
            if name in ("multiply", "divide"):
                factor = number if name == "multiply" else 1 / number
                scale, shift, scales = scale * factor, shift * factor, True
            else:
                shift, shifts = shift + (number if name == "add" else -number), True
        vars_.append(reader.var)
    if not scales:
        return None
    return Affine(call, weight, scale, shift, tuple(vars_[:-1]), vars_[-1], shifts)


def _step(
    reader: relax.Binding | None, var: relax.Var, array: Array
) -> tuple[str, np.ndarray] | None:
    """Return the operator by which a reader joins `var` with an array, and the array."""
    call = reader.value if isinstance(reader, relax.VarBinding) else None
    if not isinstance(call, relax.Call):
        return None
    name = getattr(call.op, "name", "").removeprefix("relax.")
    if name not in ("add", "multiply", "subtract", "divide"):
        return None
    left, right = call.args
    if name in ("add", "multiply") and right.same_as(var):
        left, right = right, left
    number = array(right) if left.same_as(var) else None
    return None if number is None else (name, number.astype(np.float64))


def _per_channel(array: np.ndarray, rank: int, axis: int, channels: int) -> np.ndarray | None:
    """Return the numbers of an operand that differs along one axis only."""
    if array.ndim > rank:
        return None
    shape = (1,) * (rank - array.ndim) + array.shape
    if any(extent != 1 for at, extent in enumerate(shape) if at != axis):
        return None
    return np.broadcast_to(array.reshape(-1), (channels,))
