"""Emit every node's value at one point of a nest, some lanes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tvm import ir, tirx

from ...analysis.iteration_space import Access, Atom, Node
from ...kernel_ir.expr import AxisRef, Const, Expr, Load, Tensor
from ...tensor_ir.numbers import INDEX, total
from ..facts import guards
from ..facts.division import by_reciprocals
from .access import prefetch, strided
from .access.storage import as_stored, stored
from .arithmetic.expr import Emitter, Scope, hoist, rounded, share
from .nest import Nest, sequence
from .reduce import accumulate


class PointEmitter:
    """Emits the body of a nest; `scopes` hold what is settled outside its loops, by level."""

    def __init__(self, nest: Nest, registers: set[Tensor]) -> None:
        self._nest, self._registers = nest, registers
        self._reads: dict[Load, tuple[Node, Access]] = {}
        self._axes: dict[object, tuple] = {}
        for node in nest.group.nodes:
            self._reads.update({ld: (node, a) for ld, a in node.reads.items()})
            self._axes.update(node.digits)
        nodes = nest.group.nodes
        self._made_here = {n.stage.out for n in nodes if not nest.is_reduced(n)}
        self._values = {n: nest.value(n) for n in nodes}
        self._emitter = Emitter(self._load, self._axis, nest.storage.vector_bytes)
        self._forward: dict[Tensor, ir.Expr] = {}
        self.packed: Mapping[Load, Callable[[], ir.Expr]] = {}  # loads that a buffer holds now
        self._picked: dict[Load, ir.Expr] = {}
        self._depths: dict[Expr, int] = {}
        self._settled: dict[Atom, int] = {}
        self.scopes = [Scope()]
        for _ in range(max(0, nest.strip_at)):
            self.scopes.append(Scope(self.scopes[-1]))

    def hoist(self) -> None:
        """Bind in `scopes` what the loops inside do not change."""
        limit = self._nest.strip_at + 1
        self._divide_by_reciprocals()
        hoist(self._values.values(), self._depth, limit, self.scopes, self._emitter)

    def resolve(self, atom: Atom, low: int) -> None:
        """Settle the conditions on `atom` as they are from `low` on."""
        self._settled[atom] = low
        for node in self._nest.group.nodes:
            value = self._nest.value(node)
            for settled, at in self._settled.items():
                value = guards.resolve(value, node, settled, at)
            self._values[node] = value
        self._depths.clear()
        self._divide_by_reciprocals()

    def _divide_by_reciprocals(self) -> None:
        """Divide the lanes by what is settled outside them without dividing each."""
        nest = self._nest
        if nest.group.lanes == 1 or not nest.group.reciprocals:
            return

        def settled(quotient: Expr, divisor: Expr) -> bool:
            return self._depth(divisor) <= nest.strip_at < self._depth(quotient)

        for node, value in self._values.items():
            self._values[node] = by_reciprocals(value, settled)

    def emit(
        self,
        width: int,
        start: ir.Expr | None,
        given: Mapping[Tensor, ir.Var] | None = None,
        into: ir.Var | None = None,
    ) -> list[tirx.Stmt]:
        """Emit the body from `start` of the vector dimension on, `width` lanes of it.

        `given` are registers that hold tensors; `into` is one that takes the value instead of
        memory.
        """
        nest = self._nest
        loops = nest.position.loops
        lane = tirx.Var("lane", INDEX) if width > 1 else None
        if start is not None:
            loops[nest.vector] = start
        picked = self._pick(width, given or {})
        if lane is not None:
            loops[nest.vector] = start + lane
        scope = Scope(self.scopes[-1], lane, width)
        at = lane if lane is not None else tirx.IntImm(INDEX, 0)
        self._forward = {t: tirx.BufferLoad(v, [at]) for t, v in (given or {}).items()}
        self._picked = {load: tirx.BufferLoad(v, [at]) for load, (v, _) in picked.items()}
        values = self._values
        stores: list[tirx.Stmt] = []
        aside: list[tuple[Node, ir.Var]] = []
        for node in nest.group.nodes:
            share([values[node]], scope, self._emitter)
            value = self._emitter.emit(values[node], scope)
            stores += scope.stores
            scope.stores = []
            reduce = nest.reduce_of(node)
            if reduce is not None:
                stores.append(accumulate(nest, reduce, value, lane))
                continue
            value = rounded(values[node], value)
            if into is not None:
                stores.append(tirx.BufferStore(into, value, [at]))
                continue
            if any(ld.tensor is node.stage.out for ld in self._reads):
                value = scope.bind(Load(node.stage.out, ()), value)
                stores += scope.stores
                scope.stores = []
                self._forward[node.stage.out] = value
            if self._streams(node, width) or self._splits(node, width):
                dtype = node.stage.out.dtype
                lanes = tirx.decl_buffer((width,), stored(dtype), "lanes")
                stores.append(tirx.BufferStore(lanes, as_stored(value, dtype), [lane]))
                aside.append((node, lanes))
            elif node.stage.out not in self._registers:
                stores.append(nest.store(node, value))
        body = sequence(stores)
        if lane is not None:
            body = tirx.For(lane, 0, width, tirx.ForKind.VECTORIZED, body)
        registers = [lanes for _, lanes in aside] + [lanes for lanes, _ in picked.values()]
        allocs = [*scope.allocs, *map(tirx.AllocBuffer, registers)]
        picks = [stmt for _, stmt in picked.values()]
        if start is not None:
            loops[nest.vector] = start
        # From here on the position is that of lane 0.
        after = [s for n, b in aside for s in self._store_aside(n, b, width)]
        return [*self._prefetches(width), *allocs, *picks, body, *after]

    def _prefetches(self, width: int) -> list[tirx.Stmt]:
        """Ask ahead for the inputs that the lanes walk in order."""
        nest = self._nest
        out: list[tirx.Stmt] = []
        if nest.row > nest.active[0]:
            return out  # the first of a block of rows has asked for the lines of all
        for fetch in (each for each in nest.group.fetches if each.ahead):
            access = fetch.access
            if width > 1 and access.stride(nest.vector) == 1:
                flat = nest.storage.flat(access.tensor)
                offset = nest.storage.offset(access, nest.position)
                offset = total([(1, offset)], fetch.ahead)
                out += prefetch.fetch(flat, offset, width, access.tensor.dtype, fetch.cache)
        return out

    def _pick(
        self, width: int, given: Mapping[Tensor, ir.Var]
    ) -> dict[Load, tuple[ir.Var, tirx.Stmt]]:
        """Return registers for what lanes read apart, and the statements that fill them."""
        nest, out = self._nest, {}
        if not nest.group.shuffles:
            return out
        for load, (node, access) in self._reads.items():
            tensor, storage = load.tensor, nest.storage
            if tensor in self._made_here or tensor in given or not storage.is_flat(tensor):
                continue
            if width > 1 and strided.picks(access, node, nest.vector, width):
                lanes = tirx.decl_buffer((width,), stored(load.dtype), "picked")
                first, step = storage.offset(access, nest.position), access.stride(nest.vector)
                flat = storage.flat(tensor)
                out[load] = lanes, strided.pick(flat, first, step, lanes, storage.vector_bytes)
        return out

    def _streams(self, node: Node, width: int) -> bool:
        nest = self._nest
        if width == 1 or node.store.stride(nest.vector) != 1:
            return False
        return node not in nest.phase.partial and nest.storage.streams(node, width)

    def _splits(self, node: Node, width: int) -> bool:
        return width > 1 and self._nest.storage.splits(node, self._nest.vector)

    def _store_aside(self, node: Node, lanes: ir.Var, width: int) -> list[tirx.Stmt]:
        """Store lanes that a buffer of their own holds."""
        nest = self._nest
        if self._splits(node, width):
            return nest.storage.store_split(node, lanes, width, nest.position)
        return [nest.storage.stream(node, lanes, width, nest.position)]

    def element(self, load: Load) -> ir.Expr:
        """Return what a load reads at the position at hand."""
        return self._load(load, Scope())

    # What expressions ask for

    def _load(self, load: Load, scope: Scope) -> ir.Expr:
        if load.tensor in self._forward:
            return self._forward[load.tensor]
        if load in self.packed:
            return self.packed[load]()
        if load in self._picked:
            return self._picked[load]
        node, access = self._reads[load]

        def emit(expr: Expr) -> ir.Expr:
            return self._emitter.emit(expr, scope)

        return self._nest.storage.load(load, node, access, self._nest.position, emit)

    def _axis(self, ref: AxisRef) -> ir.Expr:
        digits = self._axes[ref.axis]
        return total([(low, self._nest.position.full(a)) for a, low in digits])

    def _depth(self, expr: Expr) -> int:
        """Return how many levels must be open before `expr` is known; lanes count as all."""
        if expr not in self._depths:
            self._depths[expr] = self._find_depth(expr)
        return self._depths[expr]

    def _find_depth(self, expr: Expr) -> int:
        if isinstance(expr, Const):
            return 0
        if isinstance(expr, AxisRef):
            return self._atoms_depth(a for a, _ in self._axes[expr.axis])
        if isinstance(expr, Load):
            if expr.tensor in self._made_here:
                return self._nest.strip_at + 1
            node, access = self._reads[expr]
            storage, position = self._nest.storage, self._nest.position
            return self._atoms_depth(storage.addressed_by(expr, node, access, position))
        return max((self._depth(c) for c in expr.children()), default=0)

    def _atoms_depth(self, atoms: Iterable[Atom]) -> int:
        nest, depth = self._nest, 0
        for atom in atoms:
            if atom in nest.dims:
                place = nest.dims.index(atom)
                inside = place >= nest.strip_at - nest.by_rows
                depth = max(depth, nest.strip_at + 1 if inside else place + 1)
        return depth
