"""Where a thread stands in a nest: its position along each axis, and what is outside."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tvm import ir, tirx

from ...analysis.iteration_space import Atom
from ...tensor_ir.numbers import total
from ..plan.axes import Axis, Spread
from ..plan.kernel_plan import Phase
from ..plan.nest import Nest
from .code import both, number


class Point:
    """A thread's position: `trips` of the spreads, `lane` of the one whose positions lie together.

    `blocks` are the numbers of the block along the axes.
    """

    def __init__(
        self, phase: Phase, nest: Nest, blocks: Mapping[Axis, ir.Expr], thread: ir.Var
    ) -> None:
        self._phase, self._nest = phase, nest
        self._blocks, self._thread = blocks, thread
        self.trips: dict[Spread, ir.Expr] = dict.fromkeys(nest.spreads, number(0))
        self.lane: ir.Expr = number(0)

    def digit(self, spread: Spread) -> ir.Expr:
        """Return the thread's number along an axis."""
        if spread.threads == 1:
            return number(0)
        value: ir.Expr = self._thread
        if spread.stride > 1:
            value = tirx.FloorDiv(value, number(spread.stride))
        if spread.stride * spread.threads < self._phase.threads:
            value = tirx.FloorMod(value, number(spread.threads))
        return value

    def inside(self, axis: Axis, lane: bool = True) -> ir.Expr:
        """Return the position along an axis in the block."""
        spread = next(s for s in self._nest.spreads if s.axis is axis)
        parts = [(spread.threads * spread.width, self.trips[spread])]
        parts.append((spread.width, self.digit(spread)))
        if spread.width > 1 and lane:
            parts.append((1, self.lane))
        return total(parts)

    def start(self, axis: Axis) -> ir.Expr:
        """Return where the block's part of an axis begins."""
        if axis.pieces == 1:
            return number(0)
        return total([(axis.block, self._blocks[axis])])

    def whole(self, axis: Axis, lane: bool = True) -> ir.Expr:
        return total([(1, self.start(axis)), (1, self.inside(axis, lane))])

    def atom(self, atom: Atom) -> ir.Expr:
        """Return the position along an atom, of the whole of it."""
        axis = self._phase.axis_of(atom)
        value, inner = self.whole(axis), 1
        for each in reversed(axis.view((atom,))):
            if each is atom:
                break
            inner *= each.extent
        if inner > 1:
            value = tirx.FloorDiv(value, number(inner))
        if inner * atom.extent < axis.extent:
            value = tirx.FloorMod(value, number(atom.extent))
        return value

    def exists(self, spreads: tuple[Spread, ...]) -> ir.Expr | None:
        """Return whether positions along some axes are in the block and the tensor; None: always.

        Of positions that lie together all are or none is.
        """
        found = (self.in_block(spreads), self.in_tensor(spreads))
        return both([each for each in found if each is not None])

    def in_block(self, spreads: tuple[Spread, ...]) -> ir.Expr | None:
        cut = (s.axis for s in spreads if s.axis.block % (s.threads * s.width))
        return both([self.inside(axis, lane=False) < number(axis.block) for axis in cut])

    def in_tensor(self, spreads: tuple[Spread, ...]) -> ir.Expr | None:
        ragged = (spread.axis for spread in spreads if spread.axis.is_ragged)
        return both([self.whole(axis, lane=False) < number(axis.extent) for axis in ragged])

    def spares(self) -> list[ir.Expr]:
        """Return the condition that a thread is one of those that the spreads number, if any."""
        product = math.prod(spread.threads for spread in self._nest.spreads)
        return [self._thread < number(product)] if product < self._phase.threads else []

    def is_first(self, atoms: tuple[Atom, ...]) -> ir.Expr | None:
        """Return whether a thread is the first of those that have one position of some atoms.

        None: it is the only one.
        """
        own, conditions = set(atoms), []
        for spread in self._nest.spreads:
            if spread.threads > 1 and not spread.axis.meets(own):
                conditions.append(tirx.EQ(self.digit(spread), number(0)))
        conditions += self.spares()
        for axis in self._phase.axes:
            if axis.blocks > 1 and not axis.meets(own):
                conditions.append(tirx.EQ(self._blocks[axis], number(0)))
        return both(conditions)

    def slot(self, spreads: tuple[Spread, ...]) -> ir.Expr:
        """Return where a thread keeps what it has at this point, of an array over some spreads."""
        parts: list[tuple[int, ir.Expr]] = []
        step = 1
        for spread in reversed(spreads):
            if spread.width > 1:
                parts.append((step, self.lane))
                step *= spread.width
        for spread in reversed(spreads):
            parts.append((step, self.trips[spread]))
            step *= spread.trips
        return total(parts)
