"""From which sizes on a form of a convolution or product, or a kernel of its own, is worth it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What holds on any target.

    Fewer than `least_lanes` channels fill too little of a register tile. Up to `summed_columns` of
    a product are sums along the depth: 51 us for two, where 8 take 57, and 7 summed so take 460
    (384 x 768, Zen 4). Up to `most_taps` of a
    window along an axis are emitted one by one. A product of `large_contraction` multiply-adds is
    worth a kernel of its own. Up to `recompute_ops` light ops are cheaper to repeat than to store
    and load again.
    """

    least_lanes: int = 8
    summed_columns: int = 2
    most_taps: int = 16
    large_contraction: int = 1 << 18
    recompute_ops: int = 2


LIMITS = Limits()
