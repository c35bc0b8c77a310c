"""Register tiles of short sums whose results leave the cache: stores, not sums, take the time.

All rows of a register tile are stored at once. Behind a sum of 64 steps or fewer the queue is still
full of the stores before, which wait for their lines: fewer rows store in smaller bursts, which the
sums hide. Results of 2 to 8 MB with 8 or 16 steps took 1.1 to 1.2 times as long with 14 rows as
with 6, with 64 steps 1.00 to 1.04; results that stay in L2 take less with 14 (Zen 4).
"""

from __future__ import annotations

import math
from dataclasses import replace

from ....analysis.iteration_space import Space
from ....device import CpuDevice
from ...plan.kernel_plan import LoopNest, Phase
from .row_blocks import rows_of


def with_short_sums(group: LoopNest, space: Space, phase: Phase, device: CpuDevice) -> LoopNest:
    """Return a register tile of fewer rows if its stores take longer than its sums, else itself."""
    turns = device.profile.thresholds
    if not group.is_product or group.rows <= turns.short_rows:
        return group
    (node,), row, lane = group.nodes, group.dims[group.strip_level - 1], group.dims[-1]
    if math.prod(a.extent for a in node.reduced) > turns.short_steps:
        return group
    last = group if group.epilogue is None else group.epilogue
    outputs = set(space.kernel.outputs)
    stored = [n for n in last.nodes if n.stage.out in outputs]
    if sum(n.stage.out.bytes for n in stored) <= device.l2_bytes:
        return group
    if any(n.store.stride(lane) != 1 for n in stored):
        return group  # turned in registers, whole rows of them
    count = phase.inner_extent(row)
    if group.flattened_outer is not None:
        count *= phase.inner_extent(group.flattened_outer)
    return replace(
        group, rows=min(group.rows, rows_of(count, device, most=max(2, turns.short_rows)))
    )
