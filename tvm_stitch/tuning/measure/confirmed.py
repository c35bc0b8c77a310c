"""Gains that are no luck: seen in some libraries, above what the default gains over itself."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from .crew import Crew
from .fleet import Fleet
from .outcome import Outcome, Pace, lower_median, middle

TWICE = 2  # libraries that measured_twice times in


def measured_twice(crew: Crew | Fleet, candidates: Sequence[Any], pace: Pace) -> list[Outcome]:
    """Return the worse of two outcomes, of other libraries and mostly of other processes.

    Where code and buffers happen to lie makes little of most kernels, and much of some in a few
    libraries: of two that differ by more a third decides, and the one between them is told.
    """
    first = {each.decisions: each for each in crew.measure(candidates, pace)}
    *others, last = first
    again = {each.decisions: each for each in crew.measure([last, *others], pace)}
    told = {each: lower_median([one, again[each]]) for each, one in first.items()}
    apart = [each for each in first if _differ(first[each], again[each], pace)]
    for third in crew.measure(apart, pace) if apart else ():
        one, other = first[third.decisions], again[third.decisions]
        told[third.decisions] = middle(one, other, third)
    return [*told.values()]


def measured_often(
    crew: Crew | Fleet, candidates: Sequence[Any], pace: Pace, readings: int, renews: bool
) -> list[Outcome]:
    """Return the median of as many libraries, of an even number the one that gained less.

    The first is the default, whose own median is what the others gain over: the library that all
    are timed beside is one alone. What is further behind the best than libraries differ is not
    timed again. If it `renews`, half are of new processes: the addresses that all is loaded to make
    some percent of short kernels.
    """
    usual, *others = candidates
    found: dict[Any, list[Outcome]] = {each: [] for each in candidates}
    for number in range(readings):
        if renews and number == readings // 2:
            crew.renew()
        left = [usual, *others]
        shift = number % len(left)  # another place in the library, mostly of another worker
        for each in crew.measure(left[shift:] + left[:shift], pace):
            found[each.decisions].append(each)
        if number % 2:
            gains = {each: lower_median(found[each]).log_gain for each in left}
            least = max(gains.values()) - math.log2(pace.differing)
            others = [each for each in others if gains[each] > least]
        if not others:
            break
    base = statistics.median(each.gain for each in found[usual])
    return [_over(lower_median(each), base) for each in found.values()]


def _over(outcome: Outcome, gain: float) -> Outcome:
    """Return what it is beside a default that has gained so much over itself."""
    if outcome.ns is None or not gain:
        return outcome
    return replace(outcome, default_ns=outcome.default_ns / gain)


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
