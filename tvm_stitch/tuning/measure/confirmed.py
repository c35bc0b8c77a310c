"""Gains that are no luck: seen in two libraries, above what the default gains over itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from .crew import Crew
from .fleet import Fleet
from .outcome import Outcome, Pace, middle, worse


def measured_twice(crew: Crew | Fleet, candidates: Sequence[Any], pace: Pace) -> list[Outcome]:
    """Return the worse of two outcomes, of other libraries and mostly of other processes.

    Where code and buffers happen to lie makes little of most kernels, and much of some in a few
    libraries: of two that differ by more a third decides, and the one between them is told.
    """
    first = {each.decisions: each for each in crew.measure(candidates, pace)}
    *others, last = first
    again = {each.decisions: each for each in crew.measure([last, *others], pace)}
    told = {each: worse(one, again[each]) for each, one in first.items()}
    apart = [each for each in first if _differ(first[each], again[each], pace)]
    for third in crew.measure(apart, pace) if apart else ():
        one, other = first[third.decisions], again[third.decisions]
        told[third.decisions] = middle(one, other, third)
    return [*told.values()]


def _differ(one: Outcome, other: Outcome, pace: Pace) -> bool:
    """Whether both have a time and they differ by more than places make of most kernels."""
    if None in (one.ns, other.ns):
        return False
    return abs(one.log_gain - other.log_gain) > math.log2(pace.differing)


def above_noise(outcomes: Iterable[Outcome], default: Any, better: float) -> dict[Any, float]:
    """Return gains in powers of two, those alone above `better` and what the default shows.

    It is timed as a candidate too, beside its like, and has no gain.
    """
    found = {each.decisions: each.log_gain for each in outcomes if each.ns is not None}
    least = max(better, abs(found.pop(default, 0.0)))
    return {default: 0.0} | {each: gain for each, gain in found.items() if gain > least}
