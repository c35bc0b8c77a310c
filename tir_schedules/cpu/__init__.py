"""CPU schedules: the stitch template, its acceptance test, and dlight rules over it."""

from .rules import Stitch, rules

__all__ = ["Stitch", "rules"]
