"""Kernel-level schedules: block analysis, templates, vector math, device description."""

from . import cpu
from .apply import ApplyStitchSchedules
from .fallback.alignment import DropAlignment

__all__ = ["ApplyStitchSchedules", "DropAlignment", "cpu"]
