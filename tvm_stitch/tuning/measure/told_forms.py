"""Ops that take other forms than the usual ones, as somebody tells."""

from __future__ import annotations

from collections.abc import Sequence

from tir_schedules.decision_source import DecisionSource
from tir_schedules.device import Device

Forms = tuple[tuple[str, str], ...]  # ops, as they are asked for, and the form that each takes


class ToldForms(DecisionSource):
    """Some ops take other forms than the usual ones, where they may."""

    def __init__(self, forms: Forms) -> None:
        self._forms = dict(forms)

    def form(self, op: str, forms: Sequence[str], device: Device) -> str:
        wanted = self._forms.get(op)
        return wanted if wanted in forms else forms[0]
