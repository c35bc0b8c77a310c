"""Kernel-level schedules: block analysis, templates, vector math, device description."""

from . import cpu
from .apply import ApplyStitchSchedules
from .backend import backend
from .fallback.alignment import DropAlignment

__all__ = ["ApplyStitchSchedules", "DropAlignment", "backend", "cpu"]
