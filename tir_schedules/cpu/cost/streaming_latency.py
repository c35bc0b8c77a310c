"""What attention in its streaming form is predicted to take."""

from __future__ import annotations

import math

from ...device import CpuDevice
from ...kernel_ir.expr import dtype_bytes
from ..plan.kernel_plan import Plan
from ..plan.streaming_attention import StreamingAttention
from .latency import Latency, estimate, overlapped_ns, stage_ns
from .levels import level_of, read_ns_per_byte
from .limits import tiles_of_thread


def estimate_any(plan: Plan, device: CpuDevice, between: int = 0) -> Latency:
    """Return the time of one call of a plan's kernel, in phases or in one pass."""
    return (
        estimate(plan, device, between)
        if plan.streaming is None
        else _estimate(plan, plan.streaming, device)
    )


def _estimate(plan: Plan, form: StreamingAttention, device: CpuDevice) -> Latency:
    threads = device.threads if plan.parallel else 1
    share = form.all_tiles / tiles_of_thread(form.all_tiles, plan.tasks, threads)
    compute, traffic = compute_ns(form, device), _traffic_ns(form, device, threads)
    regions = device.profile.call_ns
    regions += device.profile.region(threads) if plan.parallel else 0.0
    total = overlapped_ns(compute, traffic) / share + regions
    return Latency(total, compute, traffic, regions)


def compute_ns(form: StreamingAttention, device: CpuDevice) -> float:
    """Return what one thread computes: rows of overlapping tiles twice, a score's parts once."""
    at, light = form.attention, device.profile.op_ns["light"]
    rows = form.all_tiles * form.tile_rows
    products = 2 * light * (at.depth.extent + at.column.extent)
    score = stage_ns(at.largest.stage, device.profile) + device.profile.op_ns["exp"] + 2 * light
    packed = light * form.all_tiles * at.key.extent * at.depth.extent
    return (rows * at.key.extent * (products + score) + packed) / form.wide


def _traffic_ns(form: StreamingAttention, device: CpuDevice, threads: int) -> float:
    """Return what one thread moves: all tensors once, keys and values again for each tile."""
    at, profile = form.attention, device.profile
    whole = sum(t.bytes for t in at.space.kernel.params)
    once = whole * read_ns_per_byte(level_of(whole, device), threads, profile)
    operands = at.key.extent * (at.depth.extent + at.column.extent) * dtype_bytes(at.dtype)
    passing = (form.tiles - 1) * math.prod(a.extent for a in at.batch) * operands
    return once + passing * read_ns_per_byte(level_of(operands, device), threads, profile)
