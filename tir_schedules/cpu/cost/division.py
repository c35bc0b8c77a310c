"""Whether lanes that are divided by one number are better multiplied by its reciprocal."""

from __future__ import annotations

from ...device.profile import Profile
from ..facts.division import OPERATIONS

# A division runs beside other arithmetic: one of 7.7 multiply-adds (Zen 4) was faster than the 6
# that stand for it, kernels of softmax, GELU and GroupNorm by 3 to 47 %.
_WORTH = 2


def by_reciprocal(vector_bytes: int, profile: Profile) -> bool:
    """Return whether divisions of 64-byte registers take much longer than what stands for them."""
    ops = profile.op_ns
    return vector_bytes >= 64 and ops["divide"] > _WORTH * OPERATIONS * ops["light"]
