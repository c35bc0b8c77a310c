"""Nests that fill tiles: with zeros behind the end of a sum, and perhaps a step ahead."""

from __future__ import annotations

from tvm import ir, tirx

from ...analysis.iteration_space import Node
from ...device.cuda import VECTOR_BYTES
from ...kernel_ir.expr import AxisRef, Const, Load, Op, dtype_bytes, walk
from ...kernel_ir.sharing import BRANCH
from ...tensor_ir.numbers import constant, ramp
from ..plan.shared import shared_dims
from .code import guarded, number, sequence, unrolled
from .nest import NestEmitter


class TileEmitter(NestEmitter):
    """Emits a nest that does nothing else."""

    def _at_point(self) -> list[tirx.Stmt]:
        if not self._pads():
            return super()._at_point()
        walked = self._nest.walked()
        inside, made = self._point.in_tensor(walked), self._computed()
        chosen = tirx.IfThenElse(inside, sequence(made), sequence(self._zeros()))
        return guarded(self._point.in_block(walked), [chosen])

    def _pads(self) -> bool:
        return self._storage.phase.pads_tiles(self._nest)

    def _zeros(self) -> list[tirx.Stmt]:
        def at(lane: ir.Expr) -> list[tirx.Stmt]:
            self._point.lane = lane
            nodes = [(node, constant(0.0, node.stage.out.dtype)) for node in self._nest.nodes]
            return [stmt for node, zero in nodes for stmt in self._put(node, zero)]

        return unrolled("lane", self._width, at)

    def _put(self, node: Node, value: ir.Expr) -> list[tirx.Stmt]:
        return self._store_shared(node, value)


class AheadEmitter(TileEmitter):
    """Emits such a nest in two parts: registers have a step's elements before they are stored.

    What is stored as it was loaded goes in vectors: halves one by one would have a register each on
    the way, and take instructions to be put together again.
    """

    def ahead(self) -> list[tirx.Stmt]:
        """Return the nest without what it stores: registers keep it."""
        self._stores = False
        return self.body(set())

    def spill(self) -> list[tirx.Stmt]:
        """Return the stores of what registers keep."""
        return self._loops(self._nest.walked(), self._spilled)

    def _spilled(self) -> list[tirx.Stmt]:
        walked = self._nest.walked()
        exists = self._point.in_block(walked) if self._pads() else self._point.exists(walked)
        return guarded(exists, self._spill_lanes())

    def _put(self, node: Node, value: ir.Expr) -> list[tirx.Stmt]:
        return [tirx.BufferStore(self._storage.registers[node], value, [self._slot(node)])]

    def _made(self) -> list[tirx.Stmt]:
        (node, *others) = self._nest.nodes
        if not others and self._is_padded_vector(node):
            return self._padded(node)
        array, slot = self._loaded.get(node.stage.value, (None, None))
        if others or self._width == 1 or slot is None or slot() is not self._point.lane:
            return super()._made()
        value = tirx.BufferLoad(array, [ramp(number(0), self._width)])
        at = ramp(self._slot(node), self._width)
        return [tirx.BufferStore(self._storage.registers[node], value, [at])]

    def _is_padded_vector(self, node: Node) -> bool:
        """Return whether all lanes are elements side by side, or all of them are padding."""
        value = node.stage.value
        if self._width == 1 or not isinstance(value, Op) or value.name != BRANCH:
            return False
        condition, inside, outside = value.args
        if not isinstance(inside, Load) or not isinstance(outside, Const):
            return False
        if inside.tensor not in self._storage.flat or self._staged_of(inside) is not None:
            return False
        access, lane = node.reads[inside], self._nest.vector_atom()
        if self._load_width(access) < self._width:
            return False
        parts = list(walk(condition))
        axes = (part.axis for part in parts if isinstance(part, AxisRef))
        moves = any(atom is lane for axis in axes for atom, _ in node.digits[axis])
        return not moves and not any(isinstance(part, Load) for part in parts)

    def _padded(self, node: Node) -> list[tirx.Stmt]:
        condition, inside, outside = node.stage.value.args
        self._point.lane, self._out = number(0), []
        given = self._emitter.value(condition)
        kept, at = self._storage.registers[node], ramp(self._slot(node), self._width)
        place = ramp(self._places.offset(node.reads[inside]), self._width)
        loaded = tirx.BufferLoad(self._storage.flat[inside.tensor], [place])
        padding = tirx.Broadcast(constant(outside.value, outside.dtype), self._width)
        ways = (tirx.BufferStore(kept, value, [at]) for value in (loaded, padding))
        return [*self._out, tirx.IfThenElse(given, *ways)]

    def _spill_lanes(self) -> list[tirx.Stmt]:
        (node, *others) = self._nest.nodes
        if not others and self._lies_side_by_side(node):
            self._point.lane = number(0)
            at = ramp(self._slot(node), self._width)
            kept = tirx.BufferLoad(self._storage.registers[node], [at])
            return self._store_shared(node, kept, self._width)

        def one(lane: ir.Expr) -> list[tirx.Stmt]:
            self._point.lane = lane
            out: list[tirx.Stmt] = []
            for node in self._nest.nodes:
                value = tirx.BufferLoad(self._storage.registers[node], [self._slot(node)])
                out += self._store_shared(node, value)
            return out

        return unrolled("lane", self._width, one)

    def _lies_side_by_side(self, node: Node) -> bool:
        """Return whether a thread's lanes are a vector of what is shared."""
        dtype = node.stage.out.dtype
        if self._width == 1 or self._width * dtype_bytes(dtype) > VECTOR_BYTES or dtype == "bool":
            return False
        *_, last = shared_dims(node, self._storage.phase)
        return last.axis is self._vector.axis and (last.size + last.pad) % self._width == 0
