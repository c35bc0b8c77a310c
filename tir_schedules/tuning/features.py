"""Plans in numbers, as the template of a target tells them: what a model learns from."""

from __future__ import annotations

import importlib
from types import ModuleType

from ..backend import Plan
from ..device import Device

_HOMES = {
    "llvm": "tir_schedules.cpu.tuning.features",
    "cuda": "tir_schedules.cuda.tuning.features",
}


def features(plan: Plan, device: Device) -> dict[str, float]:
    """Return the numbers of a plan by their names; one that does not apply is not there."""
    told = _home(device).features(plan, device)
    return {name: float(value) for name, value in told.items()}


def predicted_ns(plan: Plan, device: Device) -> float:
    """Return what a call of the plan's kernel takes by the evaluator and the device's profile."""
    return _home(device).predicted_ns(plan, device)


def _home(device: Device) -> ModuleType:
    return importlib.import_module(_HOMES[device.kind])
