"""When a loop of known count is one body between markers, and when it is body behind body."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StepPolicy:
    """How loops become steps: none of it changes a result.

    Fewer steps than `rolled` are written out: what a step makes of its number is known then. More
    than the graph passes' own policy writes out are refused where bodies can't be one loop.
    """

    rolled: int = 4


STEPS = StepPolicy()
