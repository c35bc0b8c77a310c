"""A backend whose decisions come from elsewhere where that knows a kernel: from a tuning log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..backend import Backend
from ..device import Device
from ..kernel_ir.stage import Kernel

Decide = Callable[[Kernel, Device], Any]  # None: what the cost model decides


class DecidedBackend:
    """`usual`, but that `decide` is asked first; plans, costs and code are the same.

    What may be fused is judged by the usual decisions, so that a log changes schedules alone.
    """

    def __init__(self, usual: Backend, decide: Decide) -> None:
        self._usual, self._decide = usual, decide

    def __getattr__(self, name: str) -> Any:
        return getattr(self._usual, name)

    def default_decisions(self, kernel: Kernel, device: Device) -> Any:
        found = self._decide(kernel, device)
        return self._usual.default_decisions(kernel, device) if found is None else found
