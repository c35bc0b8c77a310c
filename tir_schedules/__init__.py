"""Kernel-level schedules: block analysis, templates, vector math, device description."""

from . import cpu
from .apply import ApplyStitchSchedules

__all__ = ["ApplyStitchSchedules", "cpu"]
