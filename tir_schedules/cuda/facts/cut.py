"""An axis cut into parts of one size: where an element of a part lies, and where the axis ends."""

from __future__ import annotations

from dataclasses import dataclass

from ...kernel_ir.expr import Axis, AxisRef, Const, Expr, Op
from ...kernel_ir.sharing import BRANCH


@dataclass(frozen=True)
class Cut:
    """So many positions in parts of `size`, the last of which may have fewer."""

    extent: int
    size: int

    @classmethod
    def into(cls, extent: int, count: int) -> Cut:
        """Return the cut into about so many parts."""
        return cls(extent, -(-extent // count))

    @property
    def count(self) -> int:
        return -(-self.extent // self.size)

    def place(self, part: Axis, inner: Axis) -> Expr:
        """Return the position of an element of a part."""
        start = Op("Mul", (AxisRef(part), Const(self.size, "int64")), "int64")
        return Op("Add", (start, AxisRef(inner)), "int64")

    def guarded(self, value: Expr, part: Axis, inner: Axis, start: float) -> Expr:
        """Return a value that is `start` behind the end of the axis."""
        if self.extent % self.size == 0:
            return value
        inside = Op("LT", (self.place(part, inner), Const(self.extent, "int64")), "bool")
        return Op(BRANCH, (inside, value, Const(start, value.dtype)), value.dtype)
