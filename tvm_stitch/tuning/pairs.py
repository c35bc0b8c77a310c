"""Values of two knobs that no trial had together: what each does alone says little of both.

Source of the method: pairwise coverage of combinatorial testing (Cohen et al., The AETG System,
IEEE Transactions on Software Engineering 23(7), 1997), greedily as there.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from typing import Any

from tir_schedules.decisions import knobs
from tir_schedules.tuning.candidates import Candidates


class Pairs:
    """Which values of two knobs were tried together."""

    def __init__(self, candidates: Candidates, seed: int) -> None:
        self._candidates, self._rng = candidates, random.Random(seed)
        self._tried: set[Any] = set()

    def tell(self, decisions: Any) -> None:
        """Hear what was tried."""
        self._tried |= _pairs(decisions)

    def around(self, decisions: Any, count: int, moved: int) -> list[Any]:
        """Return decisions that differ in one to `moved` knobs, at random; some may be the same."""
        found = []
        for _ in range(count):
            at = decisions
            for _ in range(self._rng.randint(1, moved)):
                at = self._rng.choice([at, *self._candidates.neighbours(at)])
            found.append(at)
        return found

    def newest(self, decisions: Iterable[Any], count: int) -> list[Any]:
        """Return the few that have most pairs which were not tried, one after the other."""
        new = {each: _pairs(each) - self._tried for each in decisions}
        found: list[Any] = []
        while new and len(found) < count:
            best = max(new, key=lambda each: len(new[each]))
            covered = new.pop(best)
            if not covered:
                break
            found.append(best)
            new = {each: pairs - covered for each, pairs in new.items()}
        return found


def _pairs(decisions: Any) -> set[Any]:
    return {*itertools.combinations(sorted(knobs(decisions).items()), 2)}
