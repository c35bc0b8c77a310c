"""The first elements of a row: all of it sorted, or candidates as they come."""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T

from .policy import SORTS
from .runs import Runs, number

Keys = Callable[[ir.Expr], ir.Expr]


def held(length: int, count: int) -> int:
    """Return how many elements of a row are in order, or wait to be, at once."""
    if length <= SORTS.counted:
        return length
    if count <= SORTS.inserted:
        return count
    return min(length, count + max(count, SORTS.spare * SORTS.block))


def select(runs: Runs, keys: Keys, length: ir.Expr, count: int, whole: bool) -> None:
    """Leave the first `count` elements of a row in `runs`, or all that it has if `whole`.

    A row that is not whole has more elements than `runs` holds.
    """
    runs.begin()
    first = length if whole else number(runs.span)
    with T.serial(0, first) as slot:
        runs.put(slot, keys(slot), slot)
    runs.sort(first)
    if not whole:
        _Candidates(runs, keys, count).scan(length)


class _Candidates:
    """Those kept so far, in order, and behind them what is less than the last of them."""

    def __init__(self, runs: Runs, keys: Keys, count: int) -> None:
        self._runs, self._keys, self._count = runs, keys, count
        self._inserts = runs.span == count

    def scan(self, length: ir.Expr) -> None:
        """Take all elements behind the first ones into account."""
        runs, size = self._runs, SORTS.block
        self._keep()
        blocks = tirx.floordiv(length - runs.span, size)
        with T.serial(0, blocks) as block:
            first = block * size + runs.span
            runs.least.set(tirx.max_value(runs.dtype))
            with T.serial(0, size) as n:
                runs.least.set(tirx.min(runs.least.value, self._keys(first + n)))
            # What is equal to the last one stands behind it.
            with T.If(runs.least.value < runs.last.value), T.Then():
                self._take(first, number(size))
        rest = blocks * size + runs.span
        self._take(rest, length - rest)
        if not self._inserts:
            runs.sort(runs.held.value)

    def _take(self, first: ir.Expr, size: ir.Expr) -> None:
        if self._inserts:
            self._insert(first, size)
        else:
            self._append(first, size)

    def _insert(self, first: ir.Expr, size: ir.Expr) -> None:
        runs = self._runs
        with T.serial(0, size) as n:
            key = self._keys(first + n)
            with T.If(key < runs.last.value), T.Then():
                runs.insert(key, first + n, self._count)
                runs.last.set(runs.key(number(self._count - 1)))

    def _append(self, first: ir.Expr, size: ir.Expr) -> None:
        runs = self._runs
        with T.If(runs.held.value + SORTS.block >= runs.span), T.Then():
            runs.sort(runs.held.value)
            self._keep()
        with T.serial(0, size) as n:
            key = self._keys(first + n)
            runs.put(runs.held.value, key, first + n)
            runs.held.add(tirx.Cast("int32", key < runs.last.value))

    def _keep(self) -> None:
        runs = self._runs
        runs.held.set(number(self._count))
        runs.last.set(runs.key(number(self._count - 1)))
