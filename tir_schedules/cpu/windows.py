"""Reductions over windows that overlap: convolutions of single channels, pools.

Positions of several rows share the lines that their windows have in common: a register tile of rows
x lanes takes a line when it is read and adds it to every row that has a tap there.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from ..analysis.atoms import Access, Atom, Node
from ..device import Device

LEAST_LANES = 4
MOST_TAPS = 16  # that are emitted one by one, each for every row
_REGISTERS = {64: 32, 32: 16, 16: 16}


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
            itertools.product(range(rows), range(self.tap.extent)), key=lambda p: self._line(*p)
        )

    def lines(self, rows: int) -> int:
        """Return how many lines so many rows read."""
        return len({self._line(*point) for point in self.points(rows)})

    def _line(self, row: int, tap: int) -> int:
        return self.row_step * row + self.tap_step * tap


def window_of(node: Node, lane: Atom) -> Window | None:
    """Return the rows and taps that share most lines, None if no two rows share one."""
    found = [
        Window(row, tap, access.stride(row), access.stride(tap))
        for access in node.reads.values()
        if access.stride(lane) not in (0, None)
        for row in node.spatial
        for tap in node.reduced
        if row is not lane and tap.extent <= MOST_TAPS and _goes_on(access, row, tap)
    ]
    found = [w for w in found if w.lines(2) < 2 * w.tap.extent]
    return min(found, key=_lines_a_tap, default=None)


def _lines_a_tap(window: Window) -> tuple[float, int]:
    taps = window.tap.extent
    return window.lines(taps) / taps**2, window.row_step


def _goes_on(access: Access, row: Atom, tap: Atom) -> bool:
    return all((access.stride(atom) or 0) > 0 for atom in (row, tap))


def window_rows(window: Window, lanes: int, extent: int, itemsize: int, device: Device) -> int:
    """Return the rows whose accumulators, with a weight a tap and a line, registers hold."""
    each = max(1, lanes * itemsize // device.vector_bytes)
    most = (_REGISTERS[device.vector_bytes] - window.tap.extent - each) // each
    most = min(most, extent)
    return next((n for n in range(most, most // 2, -1) if extent % n == 0), max(1, most))
