"""What is known of a kernel's time before it is planned: its bytes and its instructions."""

from __future__ import annotations

from collections.abc import Iterable

from ...device.cuda import WARP, CudaDevice
from ...kernel_ir.stage import Stage
from .assumed import ASSUMED


def read_ns(nbytes: int, device: CudaDevice) -> float:
    """Return what a byte takes of so many, read from memory or from L2."""
    share = device.profile.l2_share if nbytes <= device.l2_bytes else 1.0
    return share / device.bandwidth * 1e9


def arithmetic_ns(stages: Iterable[Stage], device: CudaDevice) -> float:
    """Return what all multiprocessors take to compute stages, each at all points of its domain."""
    issued = sum(stage.domain * point_instructions(stage) for stage in stages) / WARP
    return issued * device.profile.issue_ns / (4 * device.sms)


def kernel_ns(work: float, traffic: float, device: CudaDevice) -> float:
    """Return the time of a kernel that computes and moves so much, and its launch."""
    profile = device.profile
    alone = profile.block_ns + profile.load_ns
    return profile.launch_ns + alone + max(work, traffic) + ASSUMED.beside * (work + traffic)


def point_instructions(stage: Stage) -> float:
    """Return what a warp issues for one point of each of its lanes."""
    return 2 + stage.light + ASSUMED.expensive * stage.expensive
