"""What a plan does with memory beside its loops: lines fetched ahead, tile buffers taken apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...analysis.iteration_space import Access, Atom
from ...device import LINE_BYTES
from ...kernel_ir.expr import Expr, dtype_bytes
from ...kernel_ir.index import Linear, normalize, to_expr

if TYPE_CHECKING:
    from .kernel_plan import Phase

TO_L1, TO_L2 = 3, 2  # of llvm.prefetch


@dataclass(frozen=True)
class Fetch:
    """An access, how many elements ahead of it a nest looks, and into which cache it fetches.

    What an epilogue reads none ahead is fetched before the sums.
    """

    access: Access
    ahead: int
    cache: int = TO_L2


@dataclass(frozen=True)
class NextTilePrefetch:
    """What a tile reads or writes of a tensor: `elements` at each position of the atoms `runs`.

    It is `ahead` elements of where this tile does. The tiles along the atoms `repeats` read the
    same, so that each of them fetches a part.
    """

    access: Access
    runs: tuple[Atom, ...]
    elements: int
    ahead: int
    repeats: tuple[Atom, ...]
    writes: bool = False

    def lines(self) -> int:
        """Return how many lines a run is."""
        return -(-self.elements * dtype_bytes(self.access.tensor.dtype) // LINE_BYTES)

    def count(self, phase: Phase) -> int:
        """Return how many runs there are."""
        return math.prod(phase.inner_extent(a) for a in self.runs)

    def bytes(self, phase: Phase) -> int:
        return self.lines() * self.count(phase) * LINE_BYTES


@dataclass(frozen=True)
class Deinterleave:
    """A buffer's innermost atom: element x of a line is number `x // ways` of part `x % ways`."""

    atom: Atom
    ways: int

    @property
    def part(self) -> int:
        """The elements of a part; the last ones of some parts are unused."""
        return -(-self.atom.extent // self.ways)

    def apart(self, index: Expr) -> tuple[Expr, Expr]:
        """Return an index as `ways * a + b`, `a` without what is between two parts."""
        linear = normalize(index)
        whole = tuple(t for t in linear.terms if t.scale % self.ways == 0)
        rest = tuple(t for t in linear.terms if t.scale % self.ways)
        parts = tuple(t._replace(scale=t.scale // self.ways) for t in whole)
        return to_expr(Linear(0, parts)), to_expr(Linear(linear.const, rest))
