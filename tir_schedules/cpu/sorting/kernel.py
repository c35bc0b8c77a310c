"""A sort as one kernel: rows side by side, or parts of long rows, on all threads."""

from __future__ import annotations

import math

from tvm import ir, s_tir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from ...device import CpuDevice
from ...reference import with_reference
from ...sorting import Sort
from .cut import Cut, cut
from .keys import key, key_dtype
from .reference import reference
from .runs import INDEX, Runs, number
from .select import Keys, held, select

_MOST_POSITIONS = 2**31 - 1  # positions are 32-bit


def sort_kernel(sort: Sort, device: CpuDevice) -> tirx.PrimFunc | str:
    """Return the kernel of a sort, of its operand and results, or why it has none."""
    if not sort.rows or not sort.count:
        return "it has no elements"
    if max(math.prod(sort.shape), 2 * sort.length) > _MOST_POSITIONS:
        return "positions are 32-bit"
    with IRBuilder() as made, T.prim_func(s_tir=True):
        T.func_name("sort")
        _Kernel(sort, cut(sort, device)).write()
    func = made.get().without_attr("global_symbol")
    root = s_tir.SBlock([], [], [], "root", func.body)
    func = func.with_body(s_tir.SBlockRealize([], tirx.IntImm("bool", 1), root))
    return with_reference(func.with_attr("tirx.noalias", True), reference(sort))


class _Kernel:
    def __init__(self, sort: Sort, how: Cut) -> None:
        self._sort, self._how, self._dtype = sort, how, key_dtype(sort.dtype)
        self._x = T.arg("x", T.Buffer(sort.shape, sort.dtype))
        shape = sort.result_shape
        self._values = T.arg("values", T.Buffer(shape, sort.dtype)) if sort.values else None
        self._places = T.arg("places", T.Buffer(shape, sort.places)) if sort.places else None

    def write(self) -> None:
        if self._how.parts > 1:
            self._write_in_parts()
            return
        length, count = self._sort.length, self._sort.count
        with self._shared_out(self._sort.rows) as row:
            runs = Runs(held(length, count), self._dtype)
            select(runs, self._keys(row, number(0)), number(length), length, count)
            self._store(row, runs)

    def _write_in_parts(self) -> None:
        """Keep the first of each part, then the first of these: in order of their places."""
        sort, parts, count = self._sort, self._how.parts, self._sort.count
        longest = -(-sort.length // parts)
        keys = T.alloc_buffer((sort.rows * parts * count,), self._dtype)
        places = T.alloc_buffer((sort.rows * parts * count,), INDEX)
        with self._shared_out(sort.rows * parts) as at:
            row, start = tirx.floordiv(at, parts), tirx.floormod(at, parts) * longest
            length = tirx.min(number(longest), sort.length - start)
            runs = Runs(held(longest, count), self._dtype)
            select(runs, self._keys(row, start), length, longest, count)
            with T.serial(0, count) as n:
                T.buffer_store(keys, runs.key(n), [at * count + n])
                T.buffer_store(places, runs.place(n) + start, [at * count + n])
        with self._shared_out(sort.rows) as row:
            runs, first = Runs(parts * count, self._dtype), row * (parts * count)
            runs.begin()
            with T.serial(0, parts * count) as n:
                runs.put(n, keys[first + n], places[first + n])
            runs.sort(number(parts * count))
            self._store(row, runs)

    def _shared_out(self, trips: int) -> T.frame.ForFrame:
        parallel = self._how.parallel and trips > 1
        return T.parallel(0, trips) if parallel else T.serial(0, trips)

    def _keys(self, row: ir.Expr, start: ir.Expr) -> Keys:
        return lambda n: key(self._x[self._element(row, start + n)], self._sort.descending)

    def _store(self, row: ir.Expr, runs: Runs) -> None:
        with T.serial(0, self._sort.count) as n:
            place, at = runs.place(n), self._element(row, n)
            if self._values is not None:
                T.buffer_store(self._values, self._x[self._element(row, place)], at)
            if self._places is not None:
                T.buffer_store(self._places, tirx.Cast(self._sort.places, place), at)

    def _element(self, row: ir.Expr, n: ir.Expr) -> tuple[ir.Expr, ...]:
        """Return where an element of a row stands: rows are numbered along the other axes."""
        sort = self._sort
        others = [*sort.shape[: sort.axis], *sort.shape[sort.axis + 1 :]]
        at: list[ir.Expr] = []
        for extent in others[::-1]:
            at.insert(0, tirx.floormod(row, extent))
            row = tirx.floordiv(row, extent)
        at.insert(sort.axis, n)
        return tuple(at)
