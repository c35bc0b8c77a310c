"""When other forms of ops are measured, and when one is taken."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class FormPolicy:
    """`better`: a gain of the whole model that is worth another form. `batch`: models that are
    built at a time, each with its weights, and more where an op has more forms. `share`: of a
    budget that is spent on forms, before plans and kernels. `builds`: of a model at least, until a
    form is taken.
    """

    better: float = math.log2(1.005)
    batch: int = 4
    share: float = 0.15
    builds: int = 4

    def begins(self, budget_s: float | None, lowering_s: float) -> bool:
        """Tell whether a share has time for a form of a model that takes so long to lower."""
        return budget_s is None or self.share * budget_s >= self.builds * lowering_s


DEFAULT = FormPolicy()
