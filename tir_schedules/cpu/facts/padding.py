"""Which terms of a padded convolution count, settled by loops and not by lanes.

A padded copy of the image would be written and read once more. Instead the sum of a pixel at the
border goes over the taps that meet the image: a loop over taps is entered under a condition, and
the pixels of a register tile, each with taps of its own, are known when code is emitted.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass

from ...analysis.iteration_space import Atom, Node
from ...analysis.limits import LIMITS
from ...analysis.padded_sum import padded_sum
from ...kernel_ir.expr import Axis, Expr, Op, Term
from ...kernel_ir.index import scaled
from ..plan.kernel_plan import LoopNest, Phase
from .guards import difference


@dataclass(frozen=True)
class Bound:
    """`const + sum(stride * atom) >= 0`."""

    strides: tuple[tuple[Atom, int], ...]
    const: int

    @property
    def atoms(self) -> frozenset[Atom]:
        return frozenset(atom for atom, _ in self.strides)


@dataclass(frozen=True)
class Padding:
    """A node's `value` where all `bounds` hold; beyond them it adds nothing.

    `line` is the loop whose positions are emitted one by one at the borders: the pixels of a line.
    """

    value: Expr
    bounds: tuple[Bound, ...]
    line: Atom | None

    def holds(self, bound: Bound, line: int, tap: int) -> bool:
        """Return whether a bound of one position on the line and one tap holds."""
        at = (stride * (line if atom is self.line else tap) for atom, stride in bound.strides)
        return bound.const + sum(at) >= 0

    def spans(self) -> list[range]:
        """Return the positions on the line that meet the image, for all taps of its bounds."""
        lined = [b for b in self.bounds if self.line in b.atoms]
        taps = list(dict.fromkeys(_tap(b, self.line) for b in lined))
        out = []
        for at in itertools.product(*(range(tap.extent) for tap in taps)):
            ends = [0, self.line.extent]
            for bound in lined:
                strides = dict(bound.strides)
                step, tap = strides[self.line], _tap(bound, self.line)
                left = bound.const + strides[tap] * at[taps.index(tap)]
                if step > 0:
                    ends[0] = max(ends[0], -(left // step))
                elif step < 0:
                    ends[1] = min(ends[1], left // -step + 1)
                elif left < 0:
                    ends[1] = 0
            out.append(range(*ends))
        return out

    def breaks(self) -> list[int]:
        """Return where on the line some tap begins or ceases to count, and the line's ends."""
        found = {0, self.line.extent}
        for bound in (b for b in self.bounds if self.line in b.atoms):
            strides, tap = dict(bound.strides), _tap(bound, self.line)
            step = strides[self.line]
            for at in range(tap.extent):
                left = bound.const + strides[tap] * at
                if step:
                    found.add(-(left // step) if step > 0 else left // -step + 1)
        return sorted(at for at in found if 0 <= at <= self.line.extent)

    def is_inside(self, positions: range) -> bool:
        """Return whether positions on the line meet the image with all their taps."""
        return all(
            self.holds(bound, position, tap)
            for bound in self.bounds
            if self.line in bound.atoms
            for position in positions
            for tap in range(_tap(bound, self.line).extent)
        )


def padding_of(group: LoopNest, phase: Phase) -> Padding | None:
    """Return the padding that a nest's loops can settle, None if there is none such."""
    if len(group.nodes) != 1 or group.lanes == 1 or group.strip_level >= len(group.dims) - 1:
        return None
    (node,) = group.nodes
    bounds = bounds_of(node)
    taps = set(group.dims[group.strip_level : -1])
    if bounds is None or not taps <= set(node.reduced):
        return None
    # A bound of the pixels alone is not left to loops: what it guards may be loaded before them.
    if any(group.dims[-1] in b.atoms or not taps & b.atoms for b in bounds):
        return None
    line = group.dims[group.strip_level - 1] if group.strip_level else None
    lined = [b for b in bounds if line is not None and line in b.atoms]
    if not lined:
        line = None
    if line in phase.chunks or any(not _is_short(b, line, taps) for b in lined):
        return None
    if any(_tap(b, line) in phase.chunks for b in lined):
        return None  # taps are emitted one by one, in each tile the same
    value, _ = padded_sum(node.stage)
    return Padding(value, bounds, line)


@functools.lru_cache(maxsize=1 << 10)
def bounds_of(node: Node) -> tuple[Bound, ...] | None:
    """Return the bounds of a padded sum in atoms, None if a node is none or they are not affine."""
    found = padded_sum(node.stage)
    if found is None:
        return None
    bounds = [_bound(compare, node) for compare in found[1]]
    return None if None in bounds else tuple(bounds)


def _is_short(bound: Bound, line: Atom, taps: set[Atom]) -> bool:
    others = bound.atoms - {line}
    return len(others) == 1 and others <= taps and _tap(bound, line).extent <= LIMITS.most_taps


def _tap(bound: Bound, line: Atom) -> Atom:
    return next(atom for atom, _ in bound.strides if atom is not line)


def _bound(compare: Op, node: Node) -> Bound | None:
    gap = difference(compare)
    if compare.name in ("LT", "LE"):
        gap = scaled(gap, -1)
    const, divisor = gap.const - (compare.name in ("LT", "GT")), 1
    strides: dict[Atom, int] = {}
    for term in gap.terms:
        found = _digits(term, node)
        if found is None:
            return None
        digits, quotient = found
        if quotient > 1:
            # n + x // q >= 0 is q * n + x >= 0, and n - x // q >= 0 is q * n + q - 1 - x >= 0.
            if divisor > 1 or abs(term.scale) > 1:
                return None
            divisor, const = quotient, const * quotient + (quotient - 1) * (term.scale < 0)
            strides = {atom: stride * divisor for atom, stride in strides.items()}
        for atom, low in digits:
            stride = term.scale * divisor * low // term.low
            strides[atom] = strides.get(atom, 0) + stride
    return Bound(tuple(strides.items()), const)


def _digits(term: Term, node: Node) -> tuple[list[tuple[Atom, int]], int] | None:
    """Return the atoms of a term with their weights, and by what it divides them, or None.

    TVM writes `8 * v + e >= 4` as `2 * v + e // 4 >= 1`.
    """
    if not isinstance(term.base, Axis):
        return None
    end = term.low * term.extent
    digits = [(a, n) for a, n in node.digits[term.base] if n < end and n * a.extent > term.low]
    first = min(low for _, low in digits)
    if first * math.prod(a.extent for a, _ in digits) != end or term.low % first:
        return None
    return digits, term.low // first
