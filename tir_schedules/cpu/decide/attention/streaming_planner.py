"""The plan of attention in its streaming form, where its rows of scores are long."""

from __future__ import annotations

import logging

from ....device import CpuDevice
from ....patterns.attention_masks import hides_by_row
from ....patterns.match_attention import Attention
from ...cost.limits import most_tasks, region_ns
from ...cost.streaming_latency import compute_ns
from ...plan.kernel_plan import Plan
from .streaming_tiles import streaming_tiles

logger = logging.getLogger("tvm_stitch.schedule")


def plan_streaming(
    attention: Attention | str, device: CpuDevice, always: bool = False
) -> Plan | None:
    """Return the plan of attention whose rows of scores are too long to be looked at whole.

    Or of any attention, always.
    """
    turns = device.profile.thresholds
    if isinstance(attention, str):
        return None
    if not always and attention.key.extent < _least_keys(attention, device):
        return None
    form = streaming_tiles(attention, device)
    if isinstance(form, str):
        logger.debug("attention in whole rows: %s", form)
        return None
    work = compute_ns(form, device) / region_ns(device)
    parallel = device.threads > 1 and work >= turns.spread_regions
    return Plan(
        attention.space,
        (),
        parallel,
        min(form.all_tiles, most_tasks(device, parallel)),
        vector_bytes=device.vector_bytes,
        tile_bytes=form.tile_bytes,
        streaming=form,
    )


def _least_keys(attention: Attention, device: CpuDevice) -> int:
    """Return from how many keys on attention goes in blocks.

    Under a causal mask 12 heads of size 64 take 0.70 ms in blocks and 0.86 in whole rows of 256
    keys, 2.4 and 3.2 of 512 (2 threads, rocketlake-class); 512 with a bias that hides nothing 3.6
    and 3.2.
    """
    turns = device.profile.thresholds
    return turns.causal_keys if hides_by_row(attention) else turns.online_keys
