"""When another grouping is worth a measurement, and when a change."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class PlanPolicy:
    """Of fusion plans.

    `doubt`: of a region's predicted time, the difference within which only a clock tells; the
    evaluator is off by that much (docs/results/zen4/model.md). `runners_up`: of a region that are
    measured. `better`: a gain that is worth another plan. `worth`: of a model's time, below it a
    region is not measured. `share`: of a budget that is spent on plans, before kernels.
    """

    doubt: float = 0.35
    runners_up: int = 3
    better: float = math.log2(1.02)
    worth: float = 0.005
    share: float = 0.3


DEFAULT = PlanPolicy()
