"""The first elements of a row: all of it sorted, or what may be among them."""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T

from .policy import SORTS
from .runs import Runs, number

Keys = Callable[[ir.Expr], ir.Expr]


def groups(length: int, count: int) -> int:
    """Return of how many groups of a row the least elements are looked at; 0: it is sorted whole.

    Of 2 k groups the k-th least is exceeded by all but 1.4 k elements of a row in random order.
    """
    lanes = SORTS.long_lanes if length >= SORTS.long else SORTS.lanes
    found = -(-SORTS.groups * count // lanes) * lanes
    return found if length >= SORTS.members * found else 0


def held(length: int, count: int) -> int:
    """Return how many elements of a row are in memory at once."""
    found = groups(length, count)
    return max(found, 2 * count) + SORTS.spare if found else length


def block(length: int, count: int) -> int:
    """Return how many elements are looked at together.

    One of few blocks has what is looked for, and of a block that has, each element is looked at:
    that takes the least time where both take as long.
    """
    best = math.sqrt(SORTS.looked * length / count)
    return max(SORTS.lanes, min(1 << round(math.log2(best)), SORTS.widest))


def select(runs: Runs, keys: Keys, length: ir.Expr, longest: int, count: int) -> None:
    """Leave the first `count` elements of a row in `runs`, or all of it.

    Its length is that of the `longest` row, or about as much.
    """
    runs.begin()
    parted = groups(longest, count)
    if not parted:
        with T.serial(0, length) as slot:
            runs.put(slot, keys(slot), slot)
        runs.sort(length)
        return
    _bound(runs, keys, length, parted, count)
    _Candidates(runs, keys, count, block(longest, count)).scan(length)


def _bound(runs: Runs, keys: Keys, length: ir.Expr, groups: int, count: int) -> None:
    """Set the bound to a key that is beyond so many elements: groups have one each.

    Nothing is beyond the largest key: those of it are left out, and asked for at last.
    """
    with T.serial(0, groups) as slot:
        runs.put(slot, keys(slot), slot)
    with T.serial(1, tirx.floordiv(length, groups)) as member, T.serial(0, groups) as slot:
        runs.put(slot, tirx.min(runs.key(slot), keys(member * groups + slot)), slot)
    runs.sort(number(groups))
    most = tirx.max_value(runs.dtype)
    runs.bound.set(tirx.min(runs.key(number(count - 1)), most - 1) + 1)


class _Candidates:
    """Elements before the bound, in the order of their places."""

    def __init__(self, runs: Runs, keys: Keys, count: int, size: int) -> None:
        self._runs, self._keys, self._count, self._size = runs, keys, count, size

    def scan(self, length: ir.Expr) -> None:
        """Leave the first elements in order."""
        runs, size = self._runs, self._size
        runs.held.set(number(0))
        blocks = tirx.floordiv(length, size)
        with T.serial(0, blocks) as block:
            runs.least.set(tirx.max_value(runs.dtype))
            with T.serial(0, size) as n:
                runs.least.set(tirx.min(runs.least.value, self._keys(block * size + n)))
            with T.If(runs.least.value < runs.bound.value), T.Then():
                self._append(block * size, number(size))
        self._append(blocks * size, length - blocks * size)
        runs.sort(runs.held.value)
        with T.If(runs.held.value < self._count), T.Then():
            self._fill(length)

    def _append(self, first: ir.Expr, size: ir.Expr) -> None:
        runs = self._runs
        with T.If(runs.held.value + self._size > runs.span), T.Then():
            self._drop()
        with T.serial(0, size) as n:
            key = self._keys(first + n)
            runs.put(runs.held.value, key, first + n)
            runs.held.add(tirx.Cast("int32", key < runs.bound.value))

    def _drop(self) -> None:
        """Keep the first ones: from now on, what equals the last of them stands behind it."""
        runs = self._runs
        runs.sort(runs.held.value)
        runs.held.set(number(self._count))
        runs.bound.set(runs.key(number(self._count - 1)))

    def _fill(self, length: ir.Expr) -> None:
        """Take those of the largest key, as they stand, until there are enough."""
        runs, most = self._runs, tirx.max_value(self._runs.dtype)
        with T.serial(0, length) as n:
            is_one = tirx.EQ(self._keys(n), most)
            with T.If((runs.held.value < self._count) & is_one), T.Then():
                runs.put(runs.held.value, most, n)
                runs.held.add(1)
