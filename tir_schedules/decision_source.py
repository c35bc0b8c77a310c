"""Decisions from elsewhere than the cost model: of a tuning log, or of a MetaSchedule database.

`with using(source):` has kernels scheduled by it: by every pass that is not given one of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from tvm import tirx

from .device import Device
from .kernel_ir.stage import Kernel

DEFAULT, TUNED = "default", "tuned"  # by the cost model; as was measured


@dataclass(frozen=True)
class Decided:
    """Decisions, how they were found in a word, and how many times as fast as the default they run.

    `gain` is None where nothing tells.
    """

    decisions: Any
    how: str
    gain: float | None

    def __str__(self) -> str:
        gained = "" if self.gain is None or self.how == DEFAULT else f", {self.gain:.2f}x"
        return f"{self.how}{gained}"


class DecisionSource(Protocol):
    """What knows kernels better than the cost model."""

    def decide(self, func: tirx.PrimFunc, kernel: Kernel, device: Device) -> Decided | None:
        """Return what to run a kernel by, decisions that have a plan; None: as by default."""

    def planner(self, usual: Any, device: Device) -> Any:
        """Return the planner of fusions to use in place of the `usual` one."""


_CURRENT: ContextVar[DecisionSource | None] = ContextVar("source", default=None)


@contextlib.contextmanager
def using(source: DecisionSource) -> Iterator[None]:
    """Ask a source about each kernel that is fused and scheduled in this context."""
    before = _CURRENT.set(source)
    try:
        yield
    finally:
        _CURRENT.reset(before)


def current() -> DecisionSource | None:
    """Return the source of this context, None if there is none."""
    return _CURRENT.get()
