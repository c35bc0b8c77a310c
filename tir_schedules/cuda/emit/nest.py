"""One nest of a launch: each thread's loops, what it loads, computes, keeps and stores."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from tvm import ir, tirx

from ...analysis.iteration_space import Access, Node
from ...kernel_ir.expr import Axis as StageAxis
from ...kernel_ir.expr import Expr, Load, Tensor
from ...tensor_ir.numbers import INDEX, ramp, total
from ...tensor_ir.reductions import identity
from ..facts.accesses import always_read, is_affine, vector_width
from ..plan.axes import Spread
from ..plan.nest import HeldKey, Nest, Staged, held_key
from .arithmetic import Emitter, Way, combined
from .code import both, guarded, number, sequence, unrolled
from .places import Places
from .point import Point
from .stage import place
from .storage import Storage


class NestEmitter:
    """Emits what a nest does at each point, and what is left of its sums to be stored."""

    def __init__(self, nest: Nest, storage: Storage, point: Point) -> None:
        self._nest, self._storage, self._point = nest, storage, point
        self._vector = nest.vector()
        self._width = 1 if self._vector is None else self._vector.width
        self._reads: dict[Load, tuple[Node, Access]] = {}
        self._digits: dict[StageAxis, tuple] = {}
        for node in nest.nodes:
            self._reads.update({load: (node, access) for load, access in node.reads.items()})
            self._digits.update(node.digits)
        self._home = {n.stage.out: n for n in storage.phase.space.nodes}
        self._at_hand: dict[Tensor, ir.Var] = {}  # made in this nest, an element a lane
        self._loaded: dict[Load, tuple[ir.Var, Callable[[], ir.Expr]]] = {}
        self._out: list[tirx.Stmt] = []
        self._places = Places(storage.phase, point, self._digits, self._load_index)
        self._emitter = Emitter(self._load, self._places.axis, self._bind, self._choose)
        self._opened: set[HeldKey] = set()
        self._stores = True

    def start(self) -> list[tirx.Stmt]:
        """Return what sums begin with."""
        reduced = (node for node in self._nest.nodes if node.reduced)
        return [stmt for node in reduced for stmt in self._start(node)]

    def body(self, held: set[HeldKey]) -> list[tirx.Stmt]:
        """Return the nest; what is not yet `held` it loads."""
        self._opened = held
        return self._loops(self._nest.walked(), self._at_point)

    def finish(self) -> list[tirx.Stmt]:
        """Return the stores of sums that are whole."""
        out: list[tirx.Stmt] = []
        for node in self._nest.nodes:
            if node.reduced and self._is_stored(node):
                spreads = self._nest.of(node.spatial)
                out += self._loops(spreads, functools.partial(self._store_sum, node))
        return out

    def _store_sum(self, node: Node) -> list[tirx.Stmt]:
        kept = self._storage.registers[node]

        def at(lane: ir.Expr) -> list[tirx.Stmt]:
            self._point.lane = lane
            value = tirx.BufferLoad(kept, [self._slot(node)])
            out = self._store_shared(node, value) if node in self._storage.shared else []
            return [*out, *self._store_global(node, value)]

        spreads = self._nest.of(node.spatial)
        wide = any(s.width > 1 for s in spreads)
        stores = unrolled("lane", self._width if wide else 1, at)
        return guarded(self._point.exists(spreads), stores)

    def _start(self, node: Node) -> list[tirx.Stmt]:
        kept, rule = self._storage.registers[node], node.stage.reduction
        start = identity(rule, node.stage.out.dtype)
        count = int(kept.ty.shape[0])
        return unrolled("at", count, lambda at: [tirx.BufferStore(kept, start, [at])])

    def _loops(
        self, spreads: Sequence[Spread], body: Callable[[], list[tirx.Stmt]]
    ) -> list[tirx.Stmt]:
        if not spreads:
            return body()
        spread, *rest = spreads
        if spread.trips == 1:
            return self._loops(rest, body)
        var = tirx.Var("trip", INDEX)
        self._point.trips[spread] = var
        inner = sequence(self._loops(rest, body))
        self._point.trips[spread] = number(0)
        out = self._storage.phase.writes_out(spread, self._nest)
        kind = tirx.ForKind.UNROLLED if out else tirx.ForKind.SERIAL
        return [tirx.For(var, 0, spread.trips, kind, inner)]

    # At one point

    def _at_point(self) -> list[tirx.Stmt]:
        return guarded(self._point.exists(self._nest.walked()), self._computed())

    def _computed(self) -> list[tirx.Stmt]:
        self._point.lane = number(0)
        self._emitter.forget()
        self._loaded.clear()
        self._at_hand.clear()
        loads = [stmt for node in self._nest.nodes for stmt in self._fetch(node)]
        return [*loads, *self._made()]

    def _made(self) -> list[tirx.Stmt]:
        """Return what is computed of what was loaded, and stored."""
        lanes = unrolled("lane", self._width, self._at_lane)
        self._point.lane = number(0)
        stores = [stmt for node in self._nest.nodes for stmt in self._store_aside(node)]
        return [*lanes, *stores]

    def _at_lane(self, lane: ir.Expr) -> list[tirx.Stmt]:
        self._point.lane = lane
        self._out = []
        for node in self._nest.nodes:
            value = self._emitter.value(node.stage.value, fuses=bool(node.reduced))
            if node.reduced:
                self._accumulate(node, value)
            elif self._is_aside(node):
                array = self._array_of(node)
                slot = self._slot(node) if array is self._storage.registers.get(node) else lane
                self._out.append(tirx.BufferStore(array, value, [slot]))
                self._at_hand[node.stage.out] = array
                if node in self._storage.shared and self._stores:
                    self._out += self._store_shared(node, tirx.BufferLoad(array, [slot]))
            elif node in self._storage.shared:
                self._out += self._store_shared(node, value)
            if not node.reduced and not self._is_aside(node):
                self._out += self._store_global(node, value)
        return self._out

    def _accumulate(self, node: Node, value: ir.Expr) -> None:
        kept, rule = self._storage.registers[node], node.stage.reduction
        slot = self._slot(node)
        before = tirx.BufferLoad(kept, [slot])
        if rule.kind not in ("sum", "prod"):
            value = self._bind(value)
        self._out.append(tirx.BufferStore(kept, combined(rule, before, value), [slot]))

    def _is_aside(self, node: Node) -> bool:
        """Return whether a value is kept for other nodes, or to be stored with its neighbours."""
        read = any(load.tensor is node.stage.out for load in self._reads)
        return read or node in self._storage.registers or self._store_width(node) > 1

    def _array_of(self, node: Node) -> ir.Var:
        if node in self._storage.registers:
            return self._storage.registers[node]
        return self._storage.local(f"{node.stage.out.name}_here", self._width, node.stage.out.dtype)

    def _slot(self, node: Node) -> ir.Expr:
        return self._point.slot(self._nest.of(node.spatial))

    # Loads

    def _staged_of(self, load: Load) -> Staged | None:
        """Return what has brought a read of a node of this nest into shared memory."""
        node, _ = self._reads[load]
        staged = self._storage.phase.staged
        return next((s for s in staged if s.node is node and s.load == load), None)

    def _fetch(self, node: Node) -> list[tirx.Stmt]:
        """Load what a node reads of the parameters at all lanes of the point."""
        out: list[tirx.Stmt] = []
        for load in always_read(node):
            access = node.reads[load]
            if load.tensor in self._home or not is_affine(access, node):
                continue
            if self._staged_of(load) is not None:
                continue
            key = held_key(access, self._nest)
            spreads = self._nest.of([a for a, s in access.strides.items() if s])
            wide = any(s.width > 1 for s in spreads)
            if key in self._storage.phase.held:
                self._loaded[load] = self._held(key)
                if key in self._opened:
                    continue
                array = self._storage.held[key]
                out += self._fill(array, self._point.slot(key.spreads), load, access, wide)
            elif not wide or self._load_width(access) > 1:
                name = f"{load.tensor.name}_here"
                array = self._storage.local(name, self._width if wide else 1, load.dtype)
                self._loaded[load] = array, self._lane_or_none(wide)
                out += self._fill(array, number(0), load, access, wide)
        return out

    def _lane_or_none(self, wide: bool) -> Callable[[], ir.Expr]:
        return (lambda: self._point.lane) if wide else (lambda: number(0))

    def _held(self, key: HeldKey) -> tuple[ir.Var, Callable[[], ir.Expr]]:
        if key not in self._storage.held:
            name = f"{key.tensor.name}_held"
            self._storage.held[key] = self._storage.local(name, key.elements, key.tensor.dtype)
        return self._storage.held[key], lambda: self._point.slot(key.spreads)

    def _fill(
        self, array: ir.Var, slot: ir.Expr, load: Load, access: Access, wide: bool
    ) -> list[tirx.Stmt]:
        """Load the lanes of an access into an array from a slot on."""
        count = self._width if wide else 1
        step = min(count, self._load_width(access)) if wide else 1
        flat, offset = self._storage.flat[load.tensor], self._places.offset(access)
        out: list[tirx.Stmt] = []
        apart = access.strides[self._nest.vector_atom()] if wide else 1
        for lane in range(0, count, step):
            value = tirx.BufferLoad(flat, [ramp(total([(1, offset)], lane * apart), step)])
            out.append(tirx.BufferStore(array, value, [ramp(total([(1, slot)], lane), step)]))
        return out

    def _load_width(self, access: Access) -> int:
        if self._vector is None:
            return 1
        return min(self._width, vector_width(access, self._nest.vector_atom()))

    def _load(self, load: Load) -> ir.Expr:
        if load.tensor in self._at_hand:
            array = self._at_hand[load.tensor]
            node = self._home[load.tensor]
            kept = array is self._storage.registers.get(node)
            return tirx.BufferLoad(array, [self._slot(node) if kept else self._point.lane])
        if load in self._loaded:
            array, slot = self._loaded[load]
            return tirx.BufferLoad(array, [slot()])
        staged = self._staged_of(load)
        if staged is not None:
            return tirx.BufferLoad(self._storage.staged[staged], [place(staged, self._point)])
        _, access = self._reads[load]
        node = self._home.get(load.tensor)
        if node in self._storage.shared:
            return tirx.BufferLoad(
                self._storage.shared[node], [self._places.shared(node, load.index)]
            )
        if node is not None:
            return tirx.BufferLoad(self._storage.registers[node], [self._slot(node)])
        return tirx.BufferLoad(self._storage.flat[load.tensor], [self._places.offset(access)])

    def _load_index(self, expr: Expr) -> ir.Expr:
        return self._emitter.emit(expr)

    def _bind(self, value: ir.Expr) -> ir.Expr:
        array = self._storage.local("t", self._width, str(value.ty.dtype))
        self._out.append(tirx.BufferStore(array, value, [self._point.lane]))
        return tirx.BufferLoad(array, [self._point.lane])

    def _choose(self, condition: ir.Expr, one: Way, other: Way, dtype: str) -> ir.Expr:
        """Compute one of two values, and nothing of the other: its loads may be out of bounds."""
        array, before, ways = self._storage.local("t", self._width, dtype), self._out, []
        for way in (one, other):
            self._out = []
            value = way()
            self._out.append(tirx.BufferStore(array, value, [self._point.lane]))
            ways.append(sequence(self._out))
        self._out = before
        self._out.append(tirx.IfThenElse(condition, *ways))
        return tirx.BufferLoad(array, [self._point.lane])

    # Stores

    def _is_stored(self, node: Node) -> bool:
        return node.stage.out in self._storage.flat or node in self._storage.shared

    def _store_width(self, node: Node) -> int:
        """Return how many lanes of a result are stored at once."""
        if node.stage.out not in self._storage.flat or self._vector is None:
            return 1
        return min(self._width, vector_width(node.store, self._nest.vector_atom()))

    def _store_aside(self, node: Node) -> list[tirx.Stmt]:
        """Store the lanes of a result that an array has."""
        if node.reduced or node.stage.out not in self._storage.flat or not self._is_aside(node):
            return []
        array, step = self._at_hand[node.stage.out], self._store_width(node)
        kept = array is self._storage.registers.get(node)
        slot = self._slot(node) if kept else number(0)
        flat, out = self._storage.flat[node.stage.out], []
        for lane in range(0, self._width, step):
            self._point.lane = number(lane)
            value = tirx.BufferLoad(array, [ramp(total([(1, slot)], lane), step)])
            out.append(tirx.BufferStore(flat, value, [ramp(self._places.offset(node.store), step)]))
        self._point.lane = number(0)
        return guarded(self._point.is_first(node.spatial), out)

    def _store_global(self, node: Node, value: ir.Expr) -> list[tirx.Stmt]:
        if node.stage.out not in self._storage.flat:
            return []
        flat = self._storage.flat[node.stage.out]
        store = tirx.BufferStore(flat, value, [self._places.offset(node.store)])
        return guarded(self._point.is_first(node.spatial), [store])

    def _store_shared(self, node: Node, value: ir.Expr, width: int = 1) -> list[tirx.Stmt]:
        at = ramp(self._places.shared(node, node.stage.out_index), width)
        store = tirx.BufferStore(self._storage.shared[node], value, [at])
        return guarded(self._first_in_block(node), [store])

    def _first_in_block(self, node: Node) -> ir.Expr | None:
        own, conditions = set(node.spatial), []
        for spread in self._nest.spreads:
            if spread.threads > 1 and not spread.axis.meets(own):
                conditions.append(tirx.EQ(self._point.digit(spread), number(0)))
        return both(conditions)
