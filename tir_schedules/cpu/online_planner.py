"""The plan of attention in its online form, where its rows of scores are long."""

from __future__ import annotations

import logging

from ..analysis.attention import find_attention
from ..analysis.stage import Kernel
from ..device import Device
from .limits import most_tasks, region_ns, tile_limit
from .online_latency import compute_ns
from .online_tiles import online_tiles
from .plan import Plan

logger = logging.getLogger("tvm_stitch.schedule")


def plan_online(kernel: Kernel, device: Device) -> Plan | None:
    """Return the plan of attention whose rows of scores are too long to be looked at whole."""
    attention = find_attention(kernel)
    turns = device.profile.thresholds
    if isinstance(attention, str) or attention.key.extent < turns.online_keys:
        return None
    form = online_tiles(attention, device)
    if isinstance(form, str):
        logger.debug("attention in whole rows: %s", form)
        return None
    work = compute_ns(form, device) / region_ns(device)
    return Plan(
        attention.space,
        (),
        device.threads > 1 and work >= turns.spread_regions,
        min(form.all_tiles, most_tasks(device)),
        vector_bytes=device.vector_bytes,
        tile_bytes=form.tile_bytes,
        cache_bytes=tile_limit(device),
        online=form,
    )
