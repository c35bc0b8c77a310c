"""How a kernel's axes are cut into blocks, and spread over the threads of a block.

A position of an axis is `(trip * threads + digit) * width + lane` within a block: `digit` is the
thread's, by its number, `trip` a loop of each thread.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from ...analysis.iteration_space import Atom

FRAGMENT = 16  # rows and columns, and terms, that tensor cores multiply at once (wmma)


@dataclass(frozen=True)
class Axis:
    """Atoms walked as one, outer first; blocks have `block` positions of it each, the last less.

    Along a `serial` axis a block goes in steps of so many: what it adds up over that is whole
    behind the last. Stages may have other atoms for the same positions: each has one of the
    `views`.
    """

    views: tuple[tuple[Atom, ...], ...]
    block: int
    serial: bool = False

    @property
    def extent(self) -> int:
        return math.prod(a.extent for a in self.views[0])

    @property
    def pieces(self) -> int:
        """How many blocks or steps it is cut into."""
        return -(-self.extent // self.block)

    @property
    def blocks(self) -> int:
        return 1 if self.serial else self.pieces

    @property
    def is_ragged(self) -> bool:
        """Whether the last block has fewer positions than others."""
        return self.extent % self.block != 0

    def has(self, atom: Atom) -> bool:
        return any(atom in view for view in self.views)

    def meets(self, atoms: Collection[Atom]) -> bool:
        """Return whether some view has any of the atoms."""
        return any(atom in atoms for view in self.views for atom in view)

    def view(self, atoms: Collection[Atom]) -> tuple[Atom, ...]:
        """Return the view that has some of the atoms, an axis that `meets` them."""
        return next(view for view in self.views if any(atom in atoms for atom in view))

    def __str__(self) -> str:
        name = " = ".join("*".join(map(str, view)) for view in self.views)
        cut = f" by {self.block}" if self.serial else f" /{self.block}"
        return name if self.pieces == 1 else f"{name}{cut}"


@dataclass(frozen=True)
class Spread:
    """How the positions of an axis go over the threads of a block.

    Threads `stride` apart are neighbours along it.
    """

    axis: Axis
    threads: int
    stride: int
    width: int

    @property
    def trips(self) -> int:
        return -(-self.axis.block // (self.threads * self.width))

    @property
    def is_whole(self) -> bool:
        """Whether every thread has a position in every trip."""
        return self.axis.block % (self.threads * self.width) == 0 and not self.axis.is_ragged

    @property
    def bits(self) -> int:
        """The bits of a thread's number that are its place along the axis."""
        return (self.threads - 1) * self.stride

    def __str__(self) -> str:
        by = f" by {self.width}" if self.width > 1 else ""
        return f"{self.axis} over {self.threads} threads{by}, {self.trips} trips"
