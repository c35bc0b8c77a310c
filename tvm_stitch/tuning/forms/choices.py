"""Which forms ops take: as a model asks for them, and as a log has chosen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from tir_schedules.decision_source import DecisionSource
from tir_schedules.device import Device

from ..log import Log


class Asking(DecisionSource):
    """Decides as another source, and keeps what forms it was asked for: the usual ones first."""

    def __init__(self, other: DecisionSource) -> None:
        self._other = other
        self.forms: dict[str, tuple[str, ...]] = {}

    def form(self, op: str, forms: Sequence[str], device: Device) -> str:
        self.forms[op] = tuple(forms)
        return self._other.form(op, forms, device)


def key_of(op: str) -> str:
    """Return the key by which a log keeps what was chosen for an op."""
    return hashlib.sha256(f"form of {op}".encode()).hexdigest()


def chosen(log: Log, device: str, op: str, forms: Sequence[str]) -> str:
    """Return the form that a log has chosen for an op on a device, the usual one if it has none."""
    choice = log.choice(key_of(op), device)
    form = None if choice is None else json.loads(choice.choice)
    return form if form in forms else forms[0]
