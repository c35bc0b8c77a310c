"""A model as it is tuned: lowered once, each pass's module kept, with the device it is for."""

from __future__ import annotations

from dataclasses import dataclass

from tir_schedules.backend import device_of
from tir_schedules.device import Device
from tvm_stitch.build import Lowered, Request, lower, measured_profile


@dataclass(frozen=True)
class LoweredModel:
    lowered: Lowered
    device: Device


def lowered_model(request: Request) -> LoweredModel:
    """Lower a model. Raises: StitchError as `compile` does."""
    lowered = lower(request)
    target, threads, given = lowered.target, lowered.threads, request.profile
    profile = None if given is None else measured_profile(given, target, threads)
    return LoweredModel(lowered, device_of(target, threads, profile))
