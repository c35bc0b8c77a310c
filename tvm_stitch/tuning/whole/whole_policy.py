"""When a model by its log is taken for faster than by default."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class WholePolicy:
    """`better`: a gain of the whole model that is worth it: from one process to the next a model
    differs from itself by nearly as much. `readings`: libraries that it is timed in, half of them
    in new processes. `share`: of a budget that is kept for this, when kernels are tuned.
    """

    better: float = math.log2(1.01)
    readings: int = 6
    share: float = 0.2


DEFAULT = WholePolicy()
