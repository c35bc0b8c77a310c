"""Reductions over windows that overlap: convolutions of single channels, pools.

Positions of several rows share the lines that their windows have in common: a register tile of rows
x lanes takes a line when it is read and adds it to every row that has a tap there.
"""

from __future__ import annotations

from ...analysis.iteration_space import Access, Atom, Node
from ...analysis.limits import LIMITS
from ..plan.window import Window


def window_of(node: Node, lane: Atom) -> Window | None:
    """Return the rows and taps that share most lines, None if no two rows share one."""
    found = [
        Window(row, tap, access.stride(row), access.stride(tap))
        for access in node.reads.values()
        if access.stride(lane) not in (0, None)
        for row in node.spatial
        for tap in node.reduced
        if row is not lane and tap.extent <= LIMITS.most_taps and _goes_on(access, row, tap)
    ]
    found = [w for w in found if w.serves() > 1]
    return max(found, key=lambda w: (w.serves(), -w.row_step), default=None)


def _goes_on(access: Access, row: Atom, tap: Atom) -> bool:
    return all((access.stride(atom) or 0) > 0 for atom in (row, tap))
