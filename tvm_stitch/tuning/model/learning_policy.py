"""How much a model of gains learns, and from how little, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LearningPolicy:
    """`rounds`: trees of a model; `more_rounds`: those added for one kernel; `depth`: of each.

    Of fewer than `fewest_rows` of `fewest_kernels` a model learns one kernel by heart. `folds`: the
    parts of the kernels that are left out in turns.
    """

    rounds: int = 120
    more_rounds: int = 40
    depth: int = 4
    fewest_rows: int = 100
    fewest_kernels: int = 3
    folds: int = 4


POLICY = LearningPolicy()
