"""The rows and taps of a reduction whose windows overlap."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from ...analysis.iteration_space import Atom


@dataclass(frozen=True)
class Window:
    """The rows and taps of a reduction that reads line `row_step * row + tap_step * tap`."""

    row: Atom
    tap: Atom
    row_step: int
    tap_step: int

    def points(self, rows: int) -> list[tuple[int, int]]:
        """Return each row with each tap, those that read the same line one after the other."""
        return sorted(
            itertools.product(range(rows), range(self.tap.extent)), key=lambda p: self.line(*p)
        )

    def lines(self, rows: int) -> int:
        """Return how many lines so many rows read."""
        return len({self.line(*point) for point in self.points(rows)})

    def serves(self) -> float:
        """Return how many points a line serves on average, of as many rows as taps."""
        return self.tap.extent**2 / self.lines(self.tap.extent)

    def line(self, row: int, tap: int) -> int:
        """Return which line a row reads with a tap."""
        return self.row_step * row + self.tap_step * tap
