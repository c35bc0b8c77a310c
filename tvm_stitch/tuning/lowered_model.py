"""A model as it is tuned: lowered once, each pass's module kept, with the device it is for."""

from __future__ import annotations

from dataclasses import dataclass

from tir_schedules.device import Device
from tvm_stitch.build import Lowered, Request, device_for, lower


@dataclass(frozen=True)
class LoweredModel:
    lowered: Lowered
    device: Device


def lowered_model(request: Request) -> LoweredModel:
    """Lower a model. Raises: StitchError as `compile` does."""
    lowered = lower(request)
    return LoweredModel(lowered, device_for(request, lowered))
