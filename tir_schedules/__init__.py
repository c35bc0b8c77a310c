"""Kernel-level schedules: block analysis, templates, vector math, device description."""

from . import cpu
from .alignment import DropAlignment
from .apply import ApplyStitchSchedules

__all__ = ["ApplyStitchSchedules", "DropAlignment", "cpu"]
