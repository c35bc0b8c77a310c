"""Keys and the places they come from, put in order in memory of their own."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T

from .policy import SORTS

INDEX = "int32"
_DIGITS = 256  # of a byte


def number(value: int) -> ir.Expr:
    return tirx.IntImm(INDEX, value)


@dataclass(frozen=True)
class Slot:
    """A number that changes, in one place of an array, which LLVM keeps in a register.

    Of arrays of their own TVM's planner would let two share memory that loops with a condition use.
    """

    array: ir.Var
    index: int

    @property
    def value(self) -> ir.Expr:
        return self.array[self.index]

    def set(self, value: ir.Expr) -> None:
        T.buffer_store(self.array, value, [self.index])

    def add(self, value: ir.Expr | int) -> None:
        self.set(self.value + value)


class Runs:
    """Two arrays of `span` keys, and two of their places: `half` says where those at hand begin."""

    def __init__(self, span: int, dtype: str) -> None:
        self.span, self.dtype = span, dtype
        self.keys = T.alloc_buffer((2 * span,), dtype)
        self.places = T.alloc_buffer((2 * span,), INDEX)
        self._counts = T.alloc_buffer((_DIGITS,), INDEX) if span > SORTS.counted else None
        numbers = T.alloc_buffer((3,), INDEX, scope="local")
        bounds = T.alloc_buffer((2,), dtype, scope="local")
        self._half, self._sum, self.held = (Slot(numbers, n) for n in range(3))
        self.least, self.bound = (Slot(bounds, n) for n in range(2))

    def begin(self) -> None:
        self._half.set(number(0))

    def at(self, slot: ir.Expr) -> ir.Expr:
        return self._half.value + slot

    def key(self, slot: ir.Expr) -> ir.Expr:
        return self.keys[self.at(slot)]

    def place(self, slot: ir.Expr) -> ir.Expr:
        return self.places[self.at(slot)]

    def put(self, slot: ir.Expr, key: ir.Expr, place: ir.Expr) -> None:
        T.buffer_store(self.keys, key, [self.at(slot)])
        T.buffer_store(self.places, place, [self.at(slot)])

    def sort(self, count: ir.Expr) -> None:
        """Put so many elements in order, those with equal keys as they stand."""
        few = isinstance(count, tirx.IntImm) and int(count) <= SORTS.counted
        if self._counts is None or few:
            self._sort_by_rank(count)
        elif isinstance(count, tirx.IntImm):
            self._sort_by_digits(count)
        else:
            with T.If(count <= SORTS.counted):
                with T.Then():
                    self._sort_by_rank(count)
                with T.Else():
                    self._sort_by_digits(count)

    def _sort_by_rank(self, count: ir.Expr) -> None:
        """Move each element to where as many stand as come before it."""
        with T.serial(0, count) as n:
            self._sum.set(number(0))
            with T.serial(0, count) as m:
                one, key = self.key(m), self.key(n)
                before = (one < key) | (tirx.EQ(one, key) & (m < n))
                self._sum.add(tirx.Cast(INDEX, before))
            self._move(n, self._sum.value)
        self._half.set(self._other)

    def _sort_by_digits(self, count: ir.Expr) -> None:
        """Move elements by one byte of their keys after the other, the least one first."""
        size = 8 if self.dtype == "int64" else 4
        for byte in range(size):
            with T.serial(0, _DIGITS) as digit:
                T.buffer_store(self._counts, number(0), [digit])
            with T.serial(0, count) as n:
                digit = self._digit(n, byte, byte == size - 1)
                T.buffer_store(self._counts, self._counts[digit] + 1, [digit])
            self._sum.set(number(0))
            with T.serial(0, _DIGITS) as digit:
                self._sum.add(self._counts[digit])
                T.buffer_store(self._counts, self._sum.value - self._counts[digit], [digit])
            with T.serial(0, count) as n:
                digit = self._digit(n, byte, byte == size - 1)
                self._move(n, self._counts[digit])
                T.buffer_store(self._counts, self._counts[digit] + 1, [digit])
            self._half.set(self._other)

    def _digit(self, slot: ir.Expr, byte: int, signed: bool) -> ir.Expr:
        shifted = self.key(slot) >> tirx.const(8 * byte, self.dtype)
        digit = tirx.Cast(INDEX, shifted & tirx.const(_DIGITS - 1, self.dtype))
        return digit ^ (_DIGITS // 2) if signed else digit

    @property
    def _other(self) -> ir.Expr:
        return number(self.span) - self._half.value

    def _move(self, source: ir.Expr, slot: ir.Expr) -> None:
        """Copy an element to the other half."""
        T.buffer_store(self.keys, self.key(source), [self._other + slot])
        T.buffer_store(self.places, self.place(source), [self._other + slot])
