"""Values of a node's expressions at places of its atoms, for kernels that are written by hand."""

from __future__ import annotations

from collections.abc import Mapping

from tvm import ir, tirx

from ....analysis.iteration_space import Atom, Node
from ....kernel_ir.expr import NEVER_ABOVE_ZERO, AxisRef, Expr, Load, Op, Tensor
from ....tensor_ir.numbers import total
from ..access.storage import Storage
from ..arithmetic.expr import Emitter, Scope

Place = Mapping[Atom, ir.Expr]
_NOTHING: Mapping[Tensor, ir.Expr] = {}


class Places:
    """Emits expressions whose loads are of parameters, or given, at affine positions."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def value(
        self, expr: Expr, node: Node, place: Place, given: Mapping[Tensor, ir.Expr] = _NOTHING
    ) -> ir.Expr:
        """Return a node's expression at a place; `given` are elements of tensors."""

        def read(load: Load, scope: Scope) -> ir.Expr:
            if load.tensor in given:
                return given[load.tensor]
            access = node.reads[load]

            def index(part: Expr) -> ir.Expr:
                return emitter.emit(part, scope)

            return self._storage.load(load, node, access, _Whole(place), index)

        def axis(ref: AxisRef) -> ir.Expr:
            return total([(low, place[atom]) for atom, low in node.digits[ref.axis]])

        emitter = Emitter(read, axis, self._storage.vector_bytes)
        return emitter.emit(expr, Scope())

    def exp_below(self, value: ir.Expr, bound: ir.Expr, node: Node) -> ir.Expr:
        """Return exp(value - bound), value being no more than bound."""
        dtype = str(value.ty.dtype)
        tensors = [Tensor(name, (), dtype) for name in ("value", "bound")]
        given = dict(zip(tensors, (value, bound), strict=True))
        difference = Op("Sub", tuple(Load(t, ()) for t in tensors), dtype)
        power = Op("call:tirx.exp", (Op(NEVER_ABOVE_ZERO, (difference,), dtype),), dtype)
        return self.value(power, node, {}, given)

    def store(self, node: Node, value: ir.Expr, place: Place) -> tirx.Stmt:
        return self._storage.store(node, value, _Whole(place))


class _Whole:
    """A position in the whole iteration space."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def full(self, atom: Atom) -> ir.Expr:
        return self._place[atom]
