"""Which pieces of axes are one atom."""

from __future__ import annotations

from ..kernel_ir.expr import Axis
from ..kernel_ir.stage import Kernel
from .axis_cuts import Cuts


class Classes:
    """Union-find over (axis, low) segments that never lets one stage hold a class twice."""

    def __init__(self, kernel: Kernel, cuts: Cuts) -> None:
        self._parent: dict[tuple[Axis, int], tuple[Axis, int]] = {}
        self._stages: dict[tuple[Axis, int], set[int]] = {}
        for number, stage in enumerate(kernel.stages):
            for axis in stage.axes:
                for low, _ in cuts.segments(axis):
                    self._parent[axis, low] = (axis, low)
                    self._stages[axis, low] = {number}

    def find(self, key: tuple[Axis, int]) -> tuple[Axis, int]:
        while self._parent[key] != key:
            key = self._parent[key]
        return key

    def union(self, pairs: list[tuple[tuple[Axis, int], tuple[Axis, int]]]) -> bool:
        """Identify all pairs, or none if two pieces of one stage would become one."""
        for left, right in pairs:
            a, b = self.find(left), self.find(right)
            if a != b and self._stages[a] & self._stages[b]:
                return False
        for left, right in pairs:
            a, b = self.find(left), self.find(right)
            if a != b:
                self._parent[b] = a
                self._stages[a] = self._stages[a] | self._stages[b]
        return True
