"""Gains that are no luck: seen in two libraries, above what the default gains over itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .crew import Crew
from .fleet import Fleet
from .outcome import Outcome, Pace, worse


def measured_twice(crew: Crew | Fleet, candidates: Sequence[Any], pace: Pace) -> list[Outcome]:
    """Return the worse of two outcomes, of other libraries and mostly of other processes.

    Where code and buffers happen to lie makes 3 % of a kernel of 6 us.
    """
    first = {each.decisions: each for each in crew.measure(candidates, pace)}
    *others, last = first
    again = {each.decisions: each for each in crew.measure([last, *others], pace)}
    return [worse(found, again[candidate]) for candidate, found in first.items()]


def above_noise(outcomes: Iterable[Outcome], default: Any, better: float) -> dict[Any, float]:
    """Return gains in powers of two, those alone above `better` and what the default shows.

    It is timed as a candidate too, beside its like, and has no gain.
    """
    found = {each.decisions: each.log_gain for each in outcomes if each.ns is not None}
    least = max(better, abs(found.pop(default, 0.0)))
    return {default: 0.0} | {each: gain for each, gain in found.items() if gain > least}
