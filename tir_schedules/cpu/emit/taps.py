"""Emit loops over the taps of a window: which of them count is known from where its rows are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from tvm import tirx

from ...analysis.iteration_space import Atom
from ...tensor_ir.numbers import INDEX, total
from ..facts.padding import Bound
from ..plan.window import Window
from .nest import Nest, sequence

Body = Callable[[], list[tirx.Stmt]]


def known_bounds(nest: Nest, atom: Atom, inside: Sequence[Atom]) -> list[Bound]:
    """Return the bounds of the padding that are known in a loop, and not outside it."""
    if nest.padding is None:
        return []
    return [b for b in nest.padding.bounds if atom in b.atoms and not b.atoms & set(inside)]


def guarded(nest: Nest, bounds: list[Bound], emit: Body) -> list[tirx.Stmt]:
    """Emit a body under bounds that the loops around it decide."""
    position, zero = nest.position, tirx.IntImm(INDEX, 0)
    holds = [
        tirx.GE(total([(s, position.full(a)) for a, s in b.strides], b.const), zero) for b in bounds
    ]
    return [tirx.IfThenElse(functools.reduce(tirx.And, holds), sequence(emit()), None)]


def one_by_one(nest: Nest, atom: Atom, bounds: list[Bound], emit: Body) -> list[tirx.Stmt]:
    """Emit a loop over taps one by one, each for the rows that it leaves inside the image."""
    position = nest.position
    first, before = nest.line_start, nest.active
    var, out = position.loops[atom], []
    for tap in range(atom.extent):
        position.loops[atom] = tirx.IntImm(INDEX, tap)
        nest.active = tuple(
            row for row in before if all(nest.padding.holds(b, first + row, tap) for b in bounds)
        )
        if nest.active:
            out += emit()
    position.loops[atom], nest.active = var, before
    return out


def window_taps(nest: Nest, window: Window, bounds: list[Bound], emit: Body) -> list[tirx.Stmt]:
    """Emit the taps of a block of rows inside the image, those of one line after each other.

    Loops over other taps around this one may have left some of the rows outside.
    """
    position = nest.position
    row, tap = position.loops[window.row], position.loops[window.tap]
    out: list[tirx.Stmt] = []
    for number, at in window.points(nest.rows):
        inside = (nest.padding.holds(b, nest.line_start + number, at) for b in bounds)
        if number in nest.active and all(inside):
            nest.row = number
            position.loops[window.row] = total([(1, row)], number)
            position.loops[window.tap] = tirx.IntImm(INDEX, at)
            out += emit()
    position.loops[window.row], position.loops[window.tap], nest.row = row, tap, 0
    return out
