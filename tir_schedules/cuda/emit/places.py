"""Where elements are: positions of stages as addresses, in 32-bit arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tvm import ir, tirx

from ...analysis.iteration_space import Access, Atom, Node
from ...kernel_ir.expr import Axis as StageAxis
from ...kernel_ir.expr import AxisRef, Expr
from ...kernel_ir.index import normalize
from ...tensor_ir.numbers import INDEX, cast, total
from ..plan.kernel_plan import Phase
from ..plan.shared import shared_dims
from .code import number
from .point import Point


class Places:
    """Addresses at a point; `digits` are the atoms of each axis, `value` computes what is read."""

    def __init__(
        self,
        phase: Phase,
        point: Point,
        digits: Mapping[StageAxis, tuple[tuple[Atom, int], ...]],
        value: Callable[[Expr], ir.Expr],
    ) -> None:
        self._phase, self._point, self._digits, self._value = phase, point, digits, value

    def offset(self, access: Access) -> ir.Expr:
        """Return how many elements from the beginning of its tensor an access is."""
        parts = [(s, self._point.atom(a)) for a, s in access.strides.items() if s]
        for scale, expr in access.opaque:
            parts.append((scale, cast(self._value(expr), INDEX)))
        return total(parts, access.const)

    def shared(self, node: Node, index: tuple[Expr, ...]) -> ir.Expr:
        """Return where an element of a node's tensor is in the block's shared memory."""
        parts, step = [], 1
        dims = shared_dims(node, self._phase)
        for place in reversed(range(len(dims))):
            dim = dims[place]
            if dim.axis is not None:
                # Of what is cut a stage reads the positions of its own block alone.
                parts.append((step, self._point.inside(dim.axis)))
            elif dim.size > 1:
                parts.append((step, self.index(index[place])))
            step *= dim.size + dim.pad
        return total(parts)

    def index(self, expr: Expr) -> ir.Expr:
        """Return an index in 32-bit arithmetic."""
        linear, parts = normalize(expr), []
        for term in linear.terms:
            if not isinstance(term.base, StageAxis):
                parts.append((term.scale, cast(self._value(term.base), INDEX)))
                continue
            value = self._number(term.base)
            if term.low > 1:
                value = tirx.FloorDiv(value, number(term.low))
            if term.low * term.extent < term.base.extent:
                value = tirx.FloorMod(value, number(term.extent))
            parts.append((term.scale, value))
        return total(parts, linear.const)

    def axis(self, ref: AxisRef) -> ir.Expr:
        return self._number(ref.axis)

    def _number(self, axis: StageAxis) -> ir.Expr:
        return total([(low, self._point.atom(a)) for a, low in self._digits[axis]])
