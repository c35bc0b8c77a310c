"""When other forms of ops are measured, and when one is taken."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class FormPolicy:
    """`better`: a gain of the whole model that is worth another form. `batch`: models that are
    built at a time, each with its weights, and more where an op has more forms. `share`: of a
    budget that is spent on forms, before plans and kernels.
    """

    better: float = math.log2(1.005)
    batch: int = 4
    share: float = 0.15


DEFAULT = FormPolicy()
