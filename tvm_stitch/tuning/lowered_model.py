"""A model as it is tuned: lowered once, each pass's module kept, with the device it is for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tir_schedules.backend import device_of
from tir_schedules.device import Device
from tir_schedules.device.profile import load_profile
from tvm_stitch.build import Lowered, Request, lower


@dataclass(frozen=True)
class LoweredModel:
    lowered: Lowered
    device: Device


def lowered_model(request: Request) -> LoweredModel:
    """Lower a model. Raises: StitchError as `compile` does."""
    lowered = lower(request)
    profile = None if request.profile is None else load_profile(Path(request.profile))
    return LoweredModel(lowered, device_of(lowered.target, lowered.threads, profile))
