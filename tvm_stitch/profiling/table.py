"""One model's rows as text: aligned columns, the reason where there is no time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .harness import Row
from .peer import LOWER_PRECISION, OURS
from .stats import Timing

_HEADER = ("peer", "median us", "min", "quartiles", "calls", "vs ours", "run() us", "max diff")
_WARN_APART = 1e-4


def render(rows: Sequence[Row]) -> str:
    """Return the table. `vs ours`: a peer's median over ours, above 1 where ours is faster.

    `call us`, on a GPU: the median of calls that are waited for one by one.
    """
    ours = next((row.timing for row in rows if row.peer == OURS), None)
    timed = [_cells(row, ours) for row in rows if row.timing]
    table = [_HEADER, *timed]
    if any(row.call_timing for row in rows):
        calls = ["call us", *(_median(row.call_timing) for row in rows if row.timing)]
        table = [(*cells, call) for cells, call in zip(table, calls, strict=True)]
    lines = align(table)
    lines += [f"{row.peer}: {row.reason}" for row in rows if not row.timing]
    return "\n".join(lines)


def align(table: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows as lines, first column to the left and numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for first, *rest in table:
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines


def number(value: float) -> str:
    """Return three significant digits without an exponent: 1234, 12.3, 0.123."""
    if not math.isfinite(value) or value == 0:
        return f"{value:.0f}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 6)}f}"


def _cells(row: Row, ours: Timing | None) -> tuple[str, ...]:
    timing = row.timing
    return (
        row.peer,
        number(timing.median_us),
        number(timing.min_us),
        f"{number(timing.q1_us)}-{number(timing.q3_us)}",
        str(timing.runs),
        number(timing.median_us / ours.median_us) if ours else "-",
        _median(row.run_timing),
        _apart(row),
    )


def _median(timing: Timing | None) -> str:
    return number(timing.median_us) if timing else "-"


def _apart(row: Row) -> str:
    if row.apart is None:
        return "-"
    doubtful = row.apart > _WARN_APART and row.peer not in LOWER_PRECISION
    return f"{row.apart:.1e}{' !' if doubtful else ''}"
