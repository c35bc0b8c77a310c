"""Emit one loop nest of a phase: serial loops, a vector strip, blocks of rows."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

from tvm import ir, tirx

from ...analysis.iteration_space import Atom
from ...kernel_ir.expr import Tensor
from ...tensor_ir.numbers import INDEX, total
from ..facts import guards
from ..facts.memory.overwrite import reads_where_it_writes
from ..facts.products.depth_lanes import lanes_along_depth
from ..facts.vectors import halves
from .access import prefetch
from .depth_lanes import lane_of_sums
from .nest import Nest, Reduce, sequence
from .next_tile_prefetch import prefetching_steps
from .point import PointEmitter
from .reduce import (
    close_lanes,
    close_nested,
    close_strip,
    open_accumulator,
    open_lanes,
    open_nested,
)
from .row_packing import packed_steps
from .taps import guarded, known_bounds, one_by_one, window_taps
from .transposed import emit_blocks
from .transposed_stores import store_turned, stores_along


class NestEmitter:
    """Emits a nest; tensors in `registers` never touch memory."""

    def __init__(self, nest: Nest, registers: set[Tensor]) -> None:
        self._nest = nest
        self._points = PointEmitter(nest, registers)
        self._epilogue: PointEmitter | None = None
        self._behind = nest.behind()
        self._settled = False  # whether all rows at hand are inside a padded line
        self._in_place = False
        if self._behind is not None:
            self._epilogue = PointEmitter(self._behind, registers)
            self._in_place = reads_where_it_writes(self._behind.group, nest.storage.params)

    # Levels: loops[0..strip) | strip of the vector dimension | loops[strip..n-1) | lanes.

    def emit(self) -> tirx.Stmt:
        for atom in self._nest.dims[: self._nest.strip_at]:
            self._loops[atom] = tirx.Var(atom.name, INDEX)
        self._points.hoist()
        return sequence(self._level(0))

    @property
    def _loops(self) -> dict[Atom, ir.Expr]:
        return self._nest.position.loops

    def _level(self, level: int) -> list[tirx.Stmt]:
        """Emit everything inside the first `level` loops."""
        nest = self._nest
        here = [r for r in nest.reduces if r.level == level and not nest.in_strip(r)]
        scope = self._points.scopes[level]
        out = [*scope.allocs, *scope.stores]
        for reduce in here:
            out += open_lanes(nest, reduce)
        if not nest.dims:
            out += self._points.emit(1, None)
        elif level == nest.strip_at:
            out += self._strip()
        elif level == nest.strip_at - 1 and nest.by_rows:
            transposed = nest.group.transposed
            out += emit_blocks(nest, self._points) if transposed else self._row_blocks(level)
        else:
            atom = nest.dims[level]
            inside = functools.partial(self._level, level + 1)
            out.append(self._loop(atom, self._loops[atom], nest.extent(atom), inside))
        for reduce in here:
            out += close_lanes(nest, reduce)
        return out

    def _row_blocks(self, level: int) -> list[tirx.Stmt]:
        """Emit the loop over rows in blocks that share the loads of a strip."""
        nest = self._nest
        atom, rows = nest.dims[level], nest.group.rows
        if nest.padding is not None and nest.padding.line is atom:
            return self._line(level)
        at = functools.partial(self._rows_from, level)
        whole, rests = nest.row_blocks(atom)
        block = tirx.Var("block", INDEX)
        out = [tirx.For(block, 0, whole, tirx.ForKind.SERIAL, at(block * rows, rows))]
        for start, count, where in rests:
            rest = at(tirx.IntImm(INDEX, start), count)
            out.append(rest if where is None else tirx.IfThenElse(where, rest, None))
        nest.rows, nest.active = 1, (0,)
        return out

    def _rows_from(self, level: int, start: ir.Expr, count: int) -> tirx.Stmt:
        nest = self._nest
        self._loops[nest.dims[level]] = start
        nest.rows, nest.active = count, tuple(range(count))
        return sequence(self._level(level + 1))

    def _line(self, level: int) -> list[tirx.Stmt]:
        """Emit a line of a padded image: blocks for which the same taps count are a loop."""
        nest = self._nest
        extent, rows = nest.dims[level].extent, nest.group.rows
        breaks = nest.padding.breaks()
        out: list[tirx.Stmt] = []
        at = 0
        while at < extent:
            count = min(rows, extent - at)
            alike = max(1, (next(b for b in breaks if b > at) - at) // rows)
            nest.line_start = at
            self._settled = nest.padding.is_inside(range(at, at + count))
            if alike > 1:
                block = tirx.Var("block", INDEX)
                body = self._rows_from(level, total([(rows, block)], at), count)
                out.append(tirx.For(block, 0, alike, tirx.ForKind.SERIAL, body))
            else:
                out.append(self._rows_from(level, tirx.IntImm(INDEX, at), count))
            at += alike * rows
        nest.rows, nest.active, self._settled = 1, (0,), False
        return out

    def _strip(self) -> list[tirx.Stmt]:
        """Emit the vector dimension: whole strips in a loop, the rest in halving powers of two."""
        nest = self._nest
        atom, lanes = nest.vector, nest.group.lanes
        if lanes == 1:
            return [self._scalars(atom, nest.extent(atom))]
        if atom in nest.phase.chunks:
            return self._ragged_strip(atom, lanes)
        edges = {0, atom.extent}
        for node in nest.group.nodes:
            edges.update(guards.cuts(node, atom) or ())
        bounds = sorted(edges)
        out: list[tirx.Stmt] = []
        for low, high in itertools.pairwise(bounds):
            if len(bounds) > 2:
                self._points.resolve(atom, low)
            out += self._pieces(tirx.IntImm(INDEX, low), high - low, lanes)
        return out

    def _scalars(self, atom: Atom, extent: ir.Expr) -> tirx.Stmt:
        var = tirx.Var(atom.name, INDEX)
        return self._loop(atom, var, extent, functools.partial(self._lanes_at, var, 1))

    def _loop(
        self, atom: Atom, var: ir.Var, extent: ir.Expr, emit: Callable[[], list[tirx.Stmt]]
    ) -> tirx.Stmt:
        """Emit a loop; one over many terms of a sum in blocks, each with an accumulator."""
        static = isinstance(extent, tirx.IntImm)
        trips = int(extent) if static else self._nest.phase.inner_extent(atom)
        sums, size = self._nest.blocked(atom, trips)
        if not sums:
            return tirx.For(var, 0, extent, tirx.ForKind.SERIAL, sequence(emit()))
        opened = open_nested(self._nest, sums)
        body = sequence(emit())
        closed = close_nested(sums)
        block, step = tirx.Var("block", INDEX), tirx.IntImm(INDEX, size)
        inner: ir.Expr = step
        if not static or trips % size:
            inner = tirx.Min(step, extent - block * step)
        trip = tirx.Var(var.name, INDEX)
        body = sequence([tirx.Bind(var, block * step + trip), body])
        loop = tirx.For(trip, 0, inner, tirx.ForKind.SERIAL, body)
        count = tirx.FloorDiv(extent + tirx.IntImm(INDEX, size - 1), step)
        if static:
            count = tirx.IntImm(INDEX, -(-trips // size))
        whole = sequence([*opened, loop, *closed])
        return tirx.For(block, 0, count, tirx.ForKind.SERIAL, whole)

    def _pieces(self, start: ir.Expr, extent: int, lanes: int) -> list[tirx.Stmt]:
        whole, out = extent // lanes, []
        if whole == 1:
            out += self._lanes_at(start, lanes)
        elif whole:
            out.append(self._strip_loop(start, tirx.IntImm(INDEX, whole), lanes))
        out += self._tail(start, whole * lanes, extent % lanes)
        return out

    def _tail(self, start: ir.Expr, done: int, left: int) -> list[tirx.Stmt]:
        """Emit what whole strips leave: halving widths, or a register tile over some lanes again.

        Each piece of a register tile loads all of its rows anew, so one is better than several; the
        lanes done twice get the same results, unless these may lie over what they are made of.
        The last few lanes may be summed along the depth.
        """
        nest = self._nest
        apart = lanes_along_depth(left, nest.group, nest.phase, nest.storage.vector_bytes)
        if apart:
            done, left = done + left - apart, left - apart
            lanes = [self._lane_at(total([(1, start)], done + lane)) for lane in range(apart)]
            return [*self._tail(start, done - left, left), *itertools.chain(*lanes)]
        width = 1 << (left - 1).bit_length()
        again = nest.group.rows > 1 and not self._in_place
        if again and 0 < left < width <= done + left:
            return self._lanes_at(total([(1, start)], done + left - width), width)
        out: list[tirx.Stmt] = []
        for width in halves(left):
            out += self._lanes_at(total([(1, start)], done), width)
            done += width
        return out

    def _strip_loop(self, start: ir.Expr, count: ir.Expr, lanes: int) -> tirx.Stmt:
        var = tirx.Var("strip", INDEX)
        at = functools.partial(self._lanes_at, total([(1, start), (lanes, var)]), lanes)
        return self._loop(self._nest.vector, var, count, at)

    def _ragged_strip(self, atom: Atom, lanes: int) -> list[tirx.Stmt]:
        zero = tirx.IntImm(INDEX, 0)
        chunk = self._nest.phase.chunks[atom]
        if atom.extent % chunk == 0:
            return self._pieces(zero, chunk, lanes)
        last = atom.extent // chunk
        left = atom.extent - last * chunk
        count = tirx.FloorDiv(self._nest.extent(atom), tirx.IntImm(INDEX, lanes))
        out = [self._strip_loop(zero, count, lanes)]
        tail = self._tail(zero, left // lanes * lanes, left % lanes)
        full = self._tail(zero, chunk // lanes * lanes, chunk % lanes)
        is_last = tirx.EQ(self._nest.position.outer[atom], tirx.IntImm(INDEX, last))
        if tail:
            rest = sequence(full) if full else None
            out.append(tirx.IfThenElse(is_last, sequence(tail), rest))
        elif full:
            out.append(tirx.IfThenElse(tirx.Not(is_last), sequence(full), None))
        return out

    def _lanes_at(self, start: ir.Expr, width: int) -> list[tirx.Stmt]:
        """Emit the loops inside the strip, then the lanes themselves."""
        nest = self._nest
        inner = nest.dims[nest.strip_at : -1]
        here = [r for r in nest.reduces if nest.in_strip(r)]
        out: list[tirx.Stmt] = []
        for reduce in here:
            out += open_accumulator(nest, reduce, width, nest.rows)
        if here and self._epilogue is not None:
            out += self._awaited(start, width)
        for atom in inner:
            self._loops[atom] = tirx.Var(atom.name, INDEX)
        out += self._inner(inner, width, start)
        for reduce in here:
            if self._epilogue is not None:
                out += self._finish_rows(reduce, start, width)
            else:
                out += close_strip(nest, reduce, start, width)
        return out

    def _lane_at(self, start: ir.Expr) -> list[tirx.Stmt]:
        """Emit one lane of a register tile, the depth of its sums in the lanes."""
        (reduce,) = (r for r in self._nest.reduces if self._nest.in_strip(r))
        awaited = [] if self._epilogue is None else self._awaited(start, 1)
        sums = lane_of_sums(self._nest, reduce, start, self._rows_at)
        if self._epilogue is not None:
            return [*awaited, *sums, *self._finish_rows(reduce, start, 1)]
        return [*sums, *close_strip(self._nest, reduce, start, 1)]

    def _awaited(self, start: ir.Expr, width: int) -> list[tirx.Stmt]:
        """Ask for what the epilogue of a strip reads, before its sums."""
        row, behind = self._nest.dims[self._nest.strip_at - 1], self._behind
        out: list[tirx.Stmt] = []
        for number in range(self._nest.rows):
            at = total([(1, self._loops[row])], number)
            behind.position.loops = {**self._loops, row: at, behind.vector: start}
            for fetch in behind.group.fetches:
                if not fetch.ahead:
                    offset = behind.storage.offset(fetch.access, behind.position)
                    flat, dtype = (
                        behind.storage.flat(fetch.access.tensor),
                        fetch.access.tensor.dtype,
                    )
                    out += prefetch.fetch(flat, offset, width, dtype, fetch.cache)
        return out

    def _finish_rows(self, reduce: Reduce, start: ir.Expr, width: int) -> list[tirx.Stmt]:
        """Emit the epilogue on the accumulators of a strip, row by row."""
        row, behind = self._nest.dims[self._nest.strip_at - 1], self._behind

        def result(number: int, into: ir.Var | None = None) -> list[tirx.Stmt]:
            at = total([(1, self._loops[row])], number)
            behind.position.loops = {**self._loops, row: at}
            sums = {reduce.node.stage.out: reduce.accs[number]}
            return self._epilogue.emit(width, start, sums, into)

        count = len(reduce.accs)
        if stores_along(behind, row, count, width):
            return store_turned(behind, row, self._loops[row], start, (count, width), result)
        return [stmt for number in range(count) for stmt in result(number)]

    def _inner(self, loops: tuple[Atom, ...], width: int, start: ir.Expr) -> list[tirx.Stmt]:
        """Emit the loops between the strip and its lanes."""
        if not loops:
            return self._rows_at(width, start)
        atom, *inside = loops
        emit = functools.partial(self._inner, tuple(inside), width, start)
        window = self._nest.group.window
        if window is not None and atom is window.tap:
            emit = functools.partial(self._points.emit, width, start)
        if atom in self._nest.select_unrolled:
            return self._one_by_one(atom, emit)
        bounds = known_bounds(self._nest, atom, inside)
        dynamic = [b for b in bounds if self._nest.padding.line not in b.atoms]
        if dynamic:
            emit = functools.partial(guarded, self._nest, dynamic, emit)
        lined = [] if self._settled else [b for b in bounds if b not in dynamic]
        if window is not None and atom is window.tap:
            return window_taps(self._nest, window, lined, emit)
        if lined:
            return one_by_one(self._nest, atom, lined, emit)
        if not inside and not bounds and self._nest.group.packed is not None:
            return packed_steps(self._nest, atom, self._points, emit)
        if not inside and not bounds and self._nest.group.next_tile:
            return prefetching_steps(self._nest, atom, start, emit)
        return [self._loop(atom, self._loops[atom], self._nest.extent(atom), emit)]

    def _one_by_one(self, atom: Atom, emit: Callable[[], list[tirx.Stmt]]) -> list[tirx.Stmt]:
        """Emit each position of a loop with the value that it has there."""
        var, out = self._loops[atom], []
        for at in range(atom.extent):
            self._loops[atom] = tirx.IntImm(INDEX, at)
            self._points.resolve(atom, at)
            out += emit()
        self._loops[atom] = var
        return out

    def _rows_at(self, width: int, start: ir.Expr) -> list[tirx.Stmt]:
        """Emit the point for each row of the block at hand."""
        nest = self._nest
        if nest.rows == 1:
            return self._points.emit(width, start)
        row = nest.dims[nest.strip_at - 1]
        first = self._loops[row]
        out: list[tirx.Stmt] = []
        for number in nest.active:
            nest.row = number
            self._loops[row] = total([(1, first)], number)
            out += self._points.emit(width, start)
        self._loops[row], nest.row = first, 0
        return out
