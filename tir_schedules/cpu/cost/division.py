"""Whether lanes that are divided by one number are better multiplied by its reciprocal."""

from __future__ import annotations

from ...device.profile import Profile
from ..facts.division import OPERATIONS


def by_reciprocal(profile: Profile) -> bool:
    """Return whether divisions take much longer than the multiply-adds that stand for them.

    A division runs beside other arithmetic: one of 7.7 multiply-adds (Zen 4) was faster than the 6,
    kernels of softmax, GELU and GroupNorm by 3 to 47 % (docs/results/zen4/revisions_defaults.md).
    """
    ops, worth = profile.op_ns, profile.thresholds.division_worth
    return ops["divide"] > worth * OPERATIONS * ops["light"]
