"""Reductions over windows that overlap: convolutions of single channels, pools.

Positions of several rows share the lines that their windows have in common: a register tile of rows
x lanes takes a line when it is read and adds it to every row that has a tap there.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from ...analysis.iteration_space import Access, Atom, Node
from ...device import Device
from ...kernel_ir.expr import dtype_bytes

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
    found = [w for w in found if w.serves() > 1]
    return max(found, key=lambda w: (w.serves(), -w.row_step), default=None)


def _goes_on(access: Access, row: Atom, tap: Atom) -> bool:
    return all((access.stride(atom) or 0) > 0 for atom in (row, tap))


def window_rows(
    node: Node, window: Window, lane: Atom, lanes: int, extent: int, device: Device
) -> int:
    """Return the rows whose accumulators, with the other operand's taps and a line, fit registers.

    1 if so few lanes are not worth it.
    """
    if lanes < LEAST_LANES:
        return 1
    each = max(1, lanes * dtype_bytes(node.stage.value.dtype) // device.vector_bytes)
    beside = [a for a in node.reads.values() if a.stride(window.tap) and not a.stride(window.row)]
    taps = sum(window.tap.extent * (each if a.stride(lane) else 1) for a in beside)
    most = min(extent, (_REGISTERS[device.vector_bytes] - taps - each) // each)
    return next((n for n in range(most, most // 2, -1) if extent % n == 0), max(1, most))
