"""Decisions from elsewhere than the cost model: of a tuning log, or of a MetaSchedule database.

`with using(source):` has kernels scheduled by it: by every pass that is not given one of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
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
    """What knows kernels better than the cost model. One that knows a part inherits the rest."""

    def decide(self, func: tirx.PrimFunc, kernel: Kernel, device: Device) -> Decided | None:
        """Return what to run a kernel by, decisions that have a plan; None: as by default."""
        return None

    def scheduled(self, func: tirx.PrimFunc, device: Device) -> Decided | None:
        """Return what the template declines as others schedule it, a PrimFunc; None: as it is."""
        return None

    def form(self, op: str, forms: Sequence[str], device: Device) -> str:
        """Return the form that an op takes, of those that it may take; the first is the usual one.

        `op` tells what it computes of which shapes and dtypes.
        """
        return forms[0]

    def planner(self, usual: Any, device: Device) -> Any:
        """Return the planner of fusions to use in place of the `usual` one."""
        return usual


_CURRENT: ContextVar[DecisionSource | None] = ContextVar("source", default=None)


@contextlib.contextmanager
def using(source: DecisionSource) -> Iterator[None]:
    """Ask a source about each kernel that is fused and scheduled in this context."""
    before = _CURRENT.set(source)
    try:
        yield
    finally:
        _CURRENT.reset(before)


def chosen_form(op: str, forms: Sequence[str], device: Device) -> str:
    """Return the form that an op takes in this context, the first if nothing tells.

    Raises: ValueError if a source names one that the op may not take.
    """
    source = current()
    found = forms[0] if source is None else source.form(op, forms, device)
    if found not in forms:
        raise ValueError(f"{op} takes one of the forms {', '.join(forms)}, not {found}")
    return found


def current() -> DecisionSource | None:
    """Return the source of this context, None if there is none."""
    return _CURRENT.get()
