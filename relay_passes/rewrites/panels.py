"""Lay a weight out in panels, and remember those that are made."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import ir, relax, te

from tir_schedules.analysis.limits import LIMITS
from tir_schedules.backend import backend
from tir_schedules.device import Device

from .weights import key_of, shape_of
from .winograd import Filtering, transform_kernel, transformed_kernel


class Panels:
    """Emits the layouts of weights with `builder`, each once until they are forgotten."""

    def __init__(self, builder: relax.BlockBuilder, device: Device) -> None:
        self._builder, self._device = builder, device
        self._layout = backend(device).weights
        self._made: dict[tuple, relax.Expr] = {}

    def forget(self) -> None:
        self._made.clear()

    def lanes(self, outs: int, groups: int, dtype: str) -> tuple[int, int]:
        """Return the channels of a panel, and how many of them are added.

        Those that fill no whole panels are one: its last strip of lanes reaches back. Too few for
        lanes get some more, unless they are a group's, whose results would not be in one piece.
        """
        if outs < LIMITS.least_lanes and groups == 1:
            return LIMITS.least_lanes, LIMITS.least_lanes - outs
        widest = self._layout.widest(outs, dtype, self._device)
        return (outs if outs % widest else widest), 0

    def convolution(self, weight: relax.Expr) -> relax.Expr:
        """Return a kernel (O, I, ...) of whole panels as a direct convolution reads it."""
        outs, depth, *sizes = shape_of(weight)
        lanes = self._layout.lanes(outs, str(weight.ty.dtype), self._device)
        taps = range(3, 3 + len(sizes))
        return self.laid_out(weight, (outs // lanes, lanes, depth, *sizes), (0, *taps, 2, 1))

    def transformed(self, weight: relax.Expr, by: Filtering) -> relax.Expr:
        """Return the panels of a kernel for minimal filtering; of a constant one at once."""
        key = (key_of(weight), by)
        if key not in self._made:
            dtype = str(weight.ty.dtype)
            lanes = self._layout.lanes(shape_of(weight)[0], dtype, self._device)
            if isinstance(weight, ir.Constant):
                self._made[key] = relax.const(transformed_kernel(weight.value.numpy(), by, lanes))
            else:

                def compute(panels: te.Tensor) -> te.Tensor:
                    return transform_kernel(panels, by, lanes)

                name, panels = transform_kernel.__name__, self.convolution(weight)
                made = self._builder.call_te(compute, panels, primfunc_name_hint=name)
                self._made[key] = self._builder.emit(made)
        return self._made[key]

    def laid_out(
        self,
        weight: relax.Expr,
        shape: Sequence[int],
        order: Sequence[int],
        edges: Sequence[int] = (),
    ) -> relax.Expr:
        """Return a weight padded, reshaped and then transposed; a constant at once."""
        key = (key_of(weight), tuple(shape), tuple(order), tuple(edges))
        if key in self._made:
            return self._made[key]
        if isinstance(weight, ir.Constant):
            array = weight.value.numpy()
            if any(edges):
                array = np.pad(array, list(zip(edges[::2], edges[1::2], strict=True)))
            array = array.reshape(shape).transpose(order)
            self._made[key] = relax.const(np.ascontiguousarray(array))
        else:
            if any(edges):
                weight = self._builder.emit(relax.op.nn.pad(weight, list(edges)))
            blocks = self._builder.emit(relax.op.reshape(weight, shape))
            self._made[key] = self._builder.emit(relax.op.permute_dims(blocks, order))
        return self._made[key]
