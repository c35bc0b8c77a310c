"""Emit one loop nest of a phase: serial loops, a vector strip, accumulators in registers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from tvm import ir, tirx

from ..analysis.atoms import Access, Atom, Node, Space
from ..analysis.expr import AxisRef, Const, Expr, Load
from . import guards, prefetch
from .combiners import combine, identity, lane_tree
from .emit_expr import INDEX, Emitter, Scope, cast, hoist, share
from .plan import LoopGroup, Phase
from .storage import Position, Storage, total


@dataclass
class _Reduce:
    """A reduction in this nest: `level` is where its accumulator is initialised and stored.

    `lanes` accumulate in registers, one result a level; a stream accumulates into its own storage,
    element by element of `after`, the spatial loops inside the first reduced one.
    """

    node: Node
    level: int
    after: tuple[Atom, ...]
    in_lanes: bool
    acc: ir.Var | None = None


class NestEmitter:
    """Emits a `LoopGroup` at one tile position (`outer`)."""

    def __init__(
        self,
        space: Space,
        phase: Phase,
        group: LoopGroup,
        storage: Storage,
        outer: dict[Atom, ir.Expr],
        registers: set[int],
    ) -> None:
        self._phase, self._group, self._storage = phase, group, storage
        loose = {(id(e.producer), id(e.consumer)): e.loose for e in space.edges}
        self._position = Position(phase, outer, loose)
        self._registers = registers
        self._dims = group.dims
        self._vector = group.dims[-1] if group.dims else None
        self._strip_at = group.strip_level if group.dims else 0
        self._reads: dict[Load, tuple[Node, Access]] = {}
        self._axes: dict[object, tuple] = {}
        for node in group.nodes:
            self._reads.update({ld: (node, a) for ld, a in node.reads.items()})
            self._axes.update(node.digits)
        self._made_here = {id(n.stage.out) for n in group.nodes if not self._reduces(n)}
        self._values = {id(n): n.stage.value for n in group.nodes}
        self._emitter = Emitter(self._load, self._axis, storage.vector_bytes)
        self._forward: dict[int, ir.Expr] = {}
        self._reduces_here = [self._reduce(n) for n in group.nodes if self._reduces(n)]
        self._depths: dict[Expr, int] = {}
        self._rows, self._row, self._width = 1, 0, 1
        self._fetches = prefetch.accesses(group, phase, storage.fetched)

    # Levels: loops[0..strip) | strip of the vector dimension | loops[strip..n-1) | lanes.

    def emit(self) -> tirx.Stmt:
        scopes = [Scope()]
        for _ in range(max(0, self._strip_at)):
            scopes.append(Scope(scopes[-1]))
        self._scopes = scopes
        for atom in self._dims[: self._strip_at]:
            self._position.loops[atom] = tirx.Var(atom.name, INDEX)
        hoist(self._values.values(), self._depth, self._strip_at + 1, scopes, self._emitter)
        return _sequence(self._level(0))

    def _reduces(self, node: Node) -> bool:
        return any(d in node.reduced for d in self._dims)

    def _reduce(self, node: Node) -> _Reduce:
        level = next(i for i, d in enumerate(self._dims) if d in node.reduced)
        after = tuple(d for d in self._dims[level:] if d not in node.reduced)
        strip = self._strip_at < len(self._dims) - 1
        if strip and after == (self._vector,):
            return _Reduce(node, level, (), True)
        return _Reduce(node, level, after, not after)

    def _level(self, level: int) -> list[tirx.Stmt]:
        """Emit everything inside the first `level` loops."""
        here = [r for r in self._reduces_here if r.level == level and not self._in_strip(r)]
        out: list[tirx.Stmt] = []
        scope = self._scopes[level]
        out += [*scope.allocs, *scope.stores]
        for reduce in here:
            out += self._open(reduce, self._group.lanes if self._lane_reduced(reduce) else 1)
        if not self._dims:
            out += self._point(1, None)
        elif level == self._strip_at:
            out += self._strip()
        elif level == self._strip_at - 1 and self._group.rows > 1:
            out += self._row_blocks(level)
        else:
            atom = self._dims[level]
            var = self._position.loops[atom]
            body = _sequence(self._level(level + 1))
            out.append(tirx.For(var, 0, self._extent(atom), tirx.ForKind.SERIAL, body))
        for reduce in here:
            out += self._close(reduce)
        return out

    def _row_blocks(self, level: int) -> list[tirx.Stmt]:
        """Emit the loop over rows in blocks that share the loads of a strip."""
        atom, rows = self._dims[level], self._group.rows
        extent = self._extent(atom)
        block = tirx.Var("block", INDEX)

        def at(start: ir.Expr, count: int) -> tirx.Stmt:
            self._position.loops[atom], self._rows = start, count
            return _sequence(self._level(level + 1))

        whole = tirx.FloorDiv(extent, tirx.IntImm(INDEX, rows))
        if isinstance(extent, tirx.IntImm):
            whole = tirx.IntImm(INDEX, int(extent) // rows)
        out = [tirx.For(block, 0, whole, tirx.ForKind.SERIAL, at(block * rows, rows))]
        chunk = self._phase.inner_extent(atom)
        last = atom.extent - atom.extent // chunk * chunk or chunk
        if last % rows:
            start = tirx.IntImm(INDEX, last // rows * rows)
            rest = at(start, last % rows)
            if atom in self._phase.chunks and atom.extent % chunk:
                number = tirx.IntImm(INDEX, atom.extent // chunk)
                rest = tirx.IfThenElse(tirx.EQ(self._position.outer[atom], number), rest, None)
            out.append(rest)
        self._rows = 1
        return out

    def _in_strip(self, reduce: _Reduce) -> bool:
        return reduce.in_lanes and self._vector not in reduce.node.reduced and self._stripped

    @property
    def _stripped(self) -> bool:
        return self._strip_at < len(self._dims) - 1

    def _lane_reduced(self, reduce: _Reduce) -> bool:
        return self._vector in reduce.node.reduced

    def _extent(self, atom: Atom) -> ir.Expr:
        """Return the loop extent, shorter in the last chunk of a ragged split."""
        chunk = self._phase.inner_extent(atom)
        if atom not in self._phase.chunks or atom.extent % chunk == 0:
            return tirx.IntImm(INDEX, chunk)
        left = tirx.IntImm(INDEX, atom.extent) - self._position.outer[atom] * chunk
        return tirx.Min(tirx.IntImm(INDEX, chunk), left)

    def _strip(self) -> list[tirx.Stmt]:
        """Emit the vector dimension: whole strips in a loop, the rest in halving powers of two."""
        atom, lanes = self._vector, self._group.lanes
        if lanes == 1:
            var = tirx.Var(atom.name, INDEX)
            body = _sequence(self._lanes_at(var, 1))
            return [tirx.For(var, 0, self._extent(atom), tirx.ForKind.SERIAL, body)]
        if atom in self._phase.chunks:
            return self._ragged_strip(atom, lanes)
        edges = {0, atom.extent}
        for node in self._group.nodes:
            edges.update(guards.cuts(node, atom) or ())
        bounds = sorted(edges)
        out: list[tirx.Stmt] = []
        for low, high in itertools.pairwise(bounds):
            if len(bounds) > 2:
                for node in self._group.nodes:
                    self._values[id(node)] = guards.resolve(node.stage.value, node, atom, low)
                self._depths.clear()
            out += self._pieces(tirx.IntImm(INDEX, low), high - low, lanes)
        return out

    def _pieces(self, start: ir.Expr, extent: int, lanes: int) -> list[tirx.Stmt]:
        whole, out = extent // lanes, []
        if whole == 1:
            out += self._lanes_at(start, lanes)
        elif whole:
            out.append(self._strip_loop(start, tirx.IntImm(INDEX, whole), lanes))
        out += self._tail(start, whole * lanes, extent % lanes)
        return out

    def _tail(self, start: ir.Expr, done: int, left: int) -> list[tirx.Stmt]:
        out: list[tirx.Stmt] = []
        for width in _halves(left):
            out += self._lanes_at(total([(1, start)], done), width)
            done += width
        return out

    def _strip_loop(self, start: ir.Expr, count: ir.Expr, lanes: int) -> tirx.Stmt:
        var = tirx.Var("strip", INDEX)
        body = _sequence(self._lanes_at(total([(1, start), (lanes, var)]), lanes))
        return tirx.For(var, 0, count, tirx.ForKind.SERIAL, body)

    def _ragged_strip(self, atom: Atom, lanes: int) -> list[tirx.Stmt]:
        zero = tirx.IntImm(INDEX, 0)
        chunk = self._phase.chunks[atom]
        if atom.extent % chunk == 0:
            return self._pieces(zero, chunk, lanes)
        last = atom.extent // chunk
        left = atom.extent - last * chunk
        count = tirx.FloorDiv(self._extent(atom), tirx.IntImm(INDEX, lanes))
        out = [self._strip_loop(zero, count, lanes)]
        tail = self._tail(zero, left // lanes * lanes, left % lanes)
        full = self._tail(zero, chunk // lanes * lanes, chunk % lanes)
        is_last = tirx.EQ(self._position.outer[atom], tirx.IntImm(INDEX, last))
        if tail:
            rest = _sequence(full) if full else None
            out.append(tirx.IfThenElse(is_last, _sequence(tail), rest))
        elif full:
            out.append(tirx.IfThenElse(tirx.Not(is_last), _sequence(full), None))
        return out

    def _lanes_at(self, start: ir.Expr, width: int) -> list[tirx.Stmt]:
        """Emit the loops inside the strip, then the lanes themselves."""
        inner = self._dims[self._strip_at : -1]
        here = [r for r in self._reduces_here if self._in_strip(r)]
        out: list[tirx.Stmt] = []
        for reduce in here:
            out += self._open(reduce, width)
        body = self._row_points(width, start, inner)
        for atom in reversed(inner):
            var = self._position.loops[atom]
            body = [tirx.For(var, 0, self._extent(atom), tirx.ForKind.SERIAL, _sequence(body))]
        out += body
        for reduce in here:
            out += self._close_strip(reduce, start, width)
        return out

    def _row_points(self, width: int, start: ir.Expr, inner: tuple[Atom, ...]) -> list[tirx.Stmt]:
        for atom in inner:
            self._position.loops[atom] = tirx.Var(atom.name, INDEX)
        if self._rows == 1:
            return self._point(width, start)
        row = self._dims[self._strip_at - 1]
        first = self._position.loops[row]
        out: list[tirx.Stmt] = []
        for number in range(self._rows):
            self._row = number
            self._position.loops[row] = total([(1, first)], number)
            out += self._point(width, start)
        self._position.loops[row], self._row = first, 0
        return out

    def _point(self, width: int, start: ir.Expr | None) -> list[tirx.Stmt]:
        """Emit the body: every node's value at one point, `width` lanes of it."""
        lane = tirx.Var("lane", INDEX) if width > 1 else None
        if start is not None:
            self._position.loops[self._vector] = start if lane is None else start + lane
        scope = Scope(self._scopes[-1], lane, width)
        self._forward = {}
        values = self._values
        stores: list[tirx.Stmt] = []
        streams: list[tuple[Node, ir.Var]] = []
        for node in self._group.nodes:
            share([values[id(node)]], scope, self._emitter)
            value = self._emitter.emit(values[id(node)], scope)
            stores += scope.stores
            scope.stores = []
            reduce = next((r for r in self._reduces_here if r.node is node), None)
            if reduce is not None:
                stores.append(self._accumulate(reduce, value, lane))
                continue
            if self._is_read_here(node):
                value = scope.bind(Load(node.stage.out, ()), value)
                stores += scope.stores
                scope.stores = []
                self._forward[id(node.stage.out)] = value
            if self._streams(node, width):
                lanes = tirx.decl_buffer((width,), node.stage.out.dtype, "lanes")
                stores.append(tirx.BufferStore(lanes, value, [lane]))
                streams.append((node, lanes))
            elif id(node.stage.out) not in self._registers:
                stores.append(self._store(node, value))
        body = _sequence(stores)
        if lane is not None:
            body = tirx.For(lane, 0, width, tirx.ForKind.VECTORIZED, body)
        allocs = [*scope.allocs, *(tirx.AllocBuffer(lanes) for _, lanes in streams)]
        if start is not None:
            self._position.loops[self._vector] = start
        # From here on the position is that of lane 0.
        after = [self._storage.stream(n, b, width, self._position) for n, b in streams]
        return [*self._prefetches(width), *allocs, body, *after]

    def _prefetches(self, width: int) -> list[tirx.Stmt]:
        """Ask for the next tile's part of the inputs, if the lanes walk them in order."""
        out: list[tirx.Stmt] = []
        for access in self._fetches:
            if width > 1 and access.stride(self._vector) == 1:
                flat = self._storage.flat(access.tensor)
                offset = self._storage.offset(access, self._position)
                offset = total([(1, offset)], prefetch.step(access, self._phase))
                out += prefetch.fetch(flat, offset, width, access.tensor.dtype)
        return out

    def _streams(self, node: Node, width: int) -> bool:
        if width == 1 or node.store.stride(self._vector) != 1:
            return False
        return node not in self._phase.partial and self._storage.streams(node, width)

    def _is_read_here(self, node: Node) -> bool:
        return any(ld.tensor is node.stage.out for ld in self._reads)

    def _store(self, node: Node, value: ir.Expr) -> tirx.Stmt:
        if node in self._phase.partial:
            return self._storage.store_partial(node, value, self._piece(), self._position)
        return self._storage.store(node, value, self._position)

    def _piece(self) -> ir.Expr:
        return self._position.outer[self._phase.tile[0]]

    # Reductions

    def _open(self, reduce: _Reduce, width: int) -> list[tirx.Stmt]:
        node = reduce.node
        dtype = node.stage.value.dtype
        start = identity(node.stage.reduction, dtype)
        if not reduce.in_lanes:
            return self._fill(reduce, start)
        rows, self._width = self._rows if self._in_strip(reduce) else 1, width
        width *= rows
        reduce.acc = tirx.decl_buffer((width,), dtype, "acc")
        lane = tirx.Var("lane", INDEX)
        fill = tirx.BufferStore(reduce.acc, start, [lane])
        kind = tirx.ForKind.VECTORIZED
        if width == 1:
            fill = tirx.BufferStore(reduce.acc, start, [tirx.IntImm(INDEX, 0)])
            return [tirx.AllocBuffer(reduce.acc), fill]
        return [tirx.AllocBuffer(reduce.acc), tirx.For(lane, 0, width, kind, fill)]

    def _fill(self, reduce: _Reduce, value: ir.Expr) -> list[tirx.Stmt]:
        """Store `value` to every element of a streamed accumulator."""
        *outer, atom = reduce.after
        saved = dict(self._position.loops)
        loops = []
        for dim in outer:
            self._position.loops[dim] = tirx.Var(dim.name, INDEX)
            loops.append(dim)
        lanes = self._group.lanes if atom is self._vector else 1
        extent = self._extent(atom)

        def at(start: ir.Expr, width: int) -> tirx.Stmt:
            lane = tirx.Var("lane", INDEX)
            self._position.loops[atom] = start + lane if width > 1 else start
            store = self._store(reduce.node, value)
            kind = tirx.ForKind.VECTORIZED
            return tirx.For(lane, 0, width, kind, store) if width > 1 else store

        out: list[tirx.Stmt] = []
        var = tirx.Var("strip", INDEX)
        if isinstance(extent, tirx.IntImm):
            whole, left = divmod(int(extent), lanes)
            done = whole * lanes
            out.append(tirx.For(var, 0, whole, tirx.ForKind.SERIAL, at(var * lanes, lanes)))
            for width in _halves(left):
                out.append(at(tirx.IntImm(INDEX, done), width))
                done += width
        else:
            out.append(tirx.For(var, 0, extent, tirx.ForKind.SERIAL, at(var, 1)))
        for dim in reversed(loops):
            body = _sequence(out)
            loop = self._position.loops[dim]
            out = [tirx.For(loop, 0, self._extent(dim), tirx.ForKind.SERIAL, body)]
        self._position.loops = saved
        return out

    def _accumulate(self, reduce: _Reduce, value: ir.Expr, lane: ir.Var | None) -> tirx.Stmt:
        rule = reduce.node.stage.reduction
        if reduce.in_lanes:
            index = total([(1, lane)] if lane is not None else [], self._row * self._width)
            old = tirx.BufferLoad(reduce.acc, [index])
            return tirx.BufferStore(reduce.acc, combine(rule, old, value), [index])
        place = self._store(reduce.node, value)
        old = cast(tirx.BufferLoad(place.buffer, place.indices), str(value.ty.dtype))
        updated = combine(rule, old, value)
        return tirx.BufferStore(
            place.buffer, cast(updated, str(place.buffer.ty.dtype.dtype)), place.indices
        )

    def _close(self, reduce: _Reduce) -> list[tirx.Stmt]:
        node = reduce.node
        if reduce.in_lanes:
            width = int(reduce.acc.ty.shape[0])
            out = lane_tree(node.stage.reduction, reduce.acc, width)
            result = tirx.BufferLoad(reduce.acc, [tirx.IntImm(INDEX, 0)])
            return [*out, self._store(node, result)]
        return []

    def _close_strip(self, reduce: _Reduce, start: ir.Expr, width: int) -> list[tirx.Stmt]:
        saved = dict(self._position.loops)
        out: list[tirx.Stmt] = []
        for row in range(self._rows):
            lane = tirx.Var("lane", INDEX)
            if self._rows > 1:
                atom = self._dims[self._strip_at - 1]
                self._position.loops[atom] = total([(1, saved[atom])], row)
            parts = [(1, lane)] if width > 1 else []
            self._position.loops[self._vector] = total([(1, start), *parts])
            value = tirx.BufferLoad(reduce.acc, [total(parts, row * width)])
            body = self._store(reduce.node, value)
            if width > 1:
                body = tirx.For(lane, 0, width, tirx.ForKind.VECTORIZED, body)
            out.append(body)
        self._position.loops = saved
        return out

    # What expressions ask for

    def _load(self, load: Load, scope: Scope) -> ir.Expr:
        if id(load.tensor) in self._forward:
            return self._forward[id(load.tensor)]
        node, access = self._reads[load]

        def emit(expr: Expr) -> ir.Expr:
            return self._emitter.emit(expr, scope)

        return self._storage.load(load, node, access, self._position, emit)

    def _axis(self, ref: AxisRef) -> ir.Expr:
        digits = self._axes[ref.axis]
        return total([(low, self._position.full(a)) for a, low in digits])

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
            if id(expr.tensor) in self._made_here:
                return self._strip_at + 1
            _, access = self._reads[expr]
            used = [a for a, s in access.strides.items() if s]
            return self._atoms_depth([*used, *access.opaque_atoms])
        return max((self._depth(c) for c in expr.children()), default=0)

    def _atoms_depth(self, atoms) -> int:
        depth = 0
        for atom in atoms:
            if atom in self._dims:
                place = self._dims.index(atom)
                inside = place >= self._strip_at - (self._group.rows > 1)
                depth = max(depth, self._strip_at + 1 if inside else place + 1)
        return depth


def _halves(extent: int) -> list[int]:
    """Return powers of two, largest first, that add up to `extent`."""
    bits = range(extent.bit_length() - 1, -1, -1)
    return [1 << bit for bit in bits if extent >> bit & 1]


def _sequence(stmts: list[tirx.Stmt]) -> tirx.Stmt:
    return stmts[0] if len(stmts) == 1 else tirx.SeqStmt(stmts)
