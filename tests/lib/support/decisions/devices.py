"""Devices nobody built, on which small kernels meet the decisions that large ones meet elsewhere.

Caches of a few KiB, parallel regions that cost nothing and thresholds drawn at random cut small
tensors into phases, tiles, chunks and partial sums, so that each rule meets each other's leavings.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from unittest import mock

from tvm.target import Target

from tir_schedules.device import CpuDevice
from tir_schedules.device.profile import Profile, default_profile
from tir_schedules.device.profile.thresholds import Thresholds

MCPUS = ("znver4", "rocketlake", "x86-64-v3")
L1_BYTES, L2_BYTES = (2 << 10, 32 << 10), (4 << 10, 16 << 10, 64 << 10, 256 << 10, 2 << 20)
KIB = 1 << 10


def random_device(rng: Random, threads: int = 2, vector_bytes: int | None = None) -> CpuDevice:
    """Return a device with the caches, costs and thresholds of none."""
    width = vector_bytes or rng.choice((64, 64, 32, 16))
    l2 = rng.choice(L2_BYTES)
    l1, l3 = min(l2, rng.choice(L1_BYTES)), max(4 * l2, rng.choice((64 * KIB, 8192 * KIB)))
    return CpuDevice("none", threads, l1, l2, l3, width, _profile(rng, width))


def small_device(threads: int = 2, vector_bytes: int = 64, **thresholds: int) -> CpuDevice:
    """Return a device on which any work is worth cutting, with these thresholds."""
    profile = default_profile(MCPUS[0], vector_bytes)
    turns = {"cut_regions": 1, "spread_regions": 1, "tile_regions": 1, **thresholds}
    changed = dataclasses.replace(profile.thresholds, **turns)
    profile = dataclasses.replace(
        profile, thresholds=changed, region_ns={2: 0.5}, barrier_ns={2: 0.25}
    )
    return CpuDevice("none", threads, 32 * KIB, 1024 * KIB, 8192 * KIB, vector_bytes, profile)


@contextmanager
def on_device(device: CpuDevice) -> Iterator[None]:
    """Compile for that device, whatever the target says of itself."""

    def detect(cls: type, target: Target, threads=None, profile=None) -> CpuDevice:
        del cls, profile
        mcpu = str(target.export().get("mcpu") or "generic")
        return dataclasses.replace(device, mcpu=mcpu, threads=threads or device.threads)

    with mock.patch.object(CpuDevice, "detect", classmethod(detect)):
        yield


def _profile(rng: Random, vector_bytes: int) -> Profile:
    profile = default_profile(rng.choice(MCPUS), vector_bytes)
    later = Random(repr(rng.getstate()))  # so that seeds are the cases that they were before
    thresholds = Thresholds(
        tiles=rng.choice((2, 4, 8, 16, 64)),
        least_tiles=rng.choice((1, 2, 4, 16)),
        crossing_bytes=rng.choice((1, 64, 1024)) * KIB,
        spread_regions=rng.choice((1, 4)),
        cut_regions=rng.choice((1, 1, 4, 32)),
        tile_regions=rng.choice((1, 4, 24, 48)),
        queued_bytes=rng.choice((64, 2048)),
        window_serves=rng.choice((1.0, 1.5, 4.0)),
        row_blocks=rng.choice((1, 3, 11)),
        few_row_blocks=rng.choice((1, 2, 4)),
        uneven=rng.choice((1.0, 1.25, 2.0)),
        even=rng.choice((1.0, 1.02, 1.5)),
        short_steps=later.choice((1, 8, 64, 1 << 20)),
        short_rows=later.choice((1, 2, 6)),
        summing_tasks=later.choice((1, 3, 64)),
        division_worth=later.choice((0.1, 2.0, 100.0)),
        turning_ns=rng.choice((1.0, 16_000.0)),
        online_keys=rng.choice((4, 16, 64, 1024)),
        causal_keys=rng.choice((1, 4, 16, 256)),
        key_blocks=rng.choice((1, 2, 8)),
        packing_rows=rng.choice((0.5, 3.0, 20.0)),
        fetch_steps=rng.choice((1, 2, 24)),
        row_fetch_steps=rng.choice((0, 3, 48)),
        fetch_bytes=rng.choice((64, 8 * KIB)),
        streamed_share=rng.choice((0.01, 1 / 3, 1.0)),
        streamed_moved=rng.choice((0.1, 0.9)),
        streamed_steps=rng.choice((1, 48, 1024)),
    )
    region_ns = rng.choice((0.5, 10.0, 100.0, 833.0))
    return dataclasses.replace(
        profile,
        thresholds=thresholds,
        region_ns={2: region_ns},
        barrier_ns={2: region_ns / 2},
        handover_ns={2: rng.choice((0.001, 0.1))},
        call_ns=rng.choice((1.0, 216.0, 5000.0)),
        fold_ns=rng.choice((1.0, 6.5)),
        aliasing_ns=rng.choice((0.0, 3.9, 100.0)),
        strip_bytes=rng.choice((64.0, 640.0, 4096.0)),
    )
