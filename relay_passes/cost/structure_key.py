"""A key that sets of units share when the template treats them alike.

Whether a kernel can be stitched depends on its reductions, its changes of layout and how they are
wired, hardly on what is computed point for point between them. So tensors that element-wise ops
connect count as one, and the explorer asks the acceptance test once for each such skeleton. The
answer for a set may be wrong; a chosen kernel is tested for itself.
"""

from __future__ import annotations

from tir_schedules.kernel_ir.expr import Tensor

from ..explorer.dag import Nodes
from .fusion_units import FusionUnits, Unit


class Skeletons:
    """Skeleton keys of sets of units of one graph."""

    def __init__(self, units: FusionUnits) -> None:
        self._units = units.units
        self._elementwise = [u.refusal is None and u.is_elementwise for u in self._units]
        self._parent: dict[Tensor, Tensor] = {}
        for unit, same in zip(self._units, self._elementwise, strict=True):
            for tensor in unit.reads if same else ():
                if tensor.shape == unit.makes[0].shape:
                    self._parent[self._root(tensor)] = self._root(unit.makes[0])
        # What each unit adds to a key, its tensors' classes not yet numbered.
        self._rows = [
            self._row(u, same) for u, same in zip(self._units, self._elementwise, strict=True)
        ]

    def key(self, nodes: Nodes) -> tuple:
        """Return the skeleton of a set; units in numerical order."""
        number: dict[Tensor, int] = {}
        solid, soft = [], set()
        for index in sorted(nodes):
            what, classes = self._rows[index]
            wires = tuple(number.setdefault(c, len(number)) for c in classes)
            if self._elementwise[index]:
                soft.add((what, wires))
            else:
                solid.append((what, wires))
        return tuple(solid), frozenset(soft)

    def _row(self, unit: Unit, same: bool) -> tuple[object, tuple[Tensor, ...]]:
        if unit.refusal is not None:
            return None, ()
        if not same:
            what = tuple(n.func_hash for n in unit.group.nodes)
            return what, tuple(self._root(t) for t in (*unit.reads, *unit.makes))
        (made,) = unit.makes
        other = [t for t in unit.reads if t.shape != made.shape]
        what = (made.shape, made.dtype, tuple(sorted({(t.shape, t.dtype) for t in other})))
        return what, tuple(dict.fromkeys(self._root(t) for t in (made, *other)))

    def _root(self, tensor: Tensor) -> Tensor:
        while (above := self._parent.get(tensor, tensor)) is not tensor:
            self._parent[tensor] = self._parent.get(above, above)
            tensor = above
        return tensor
