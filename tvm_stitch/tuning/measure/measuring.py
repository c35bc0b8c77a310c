"""What is measured in turns until a budget is spent, or Ctrl-C ends it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..log import DeviceKey, Log
from ..log.trial import SURE
from .crew import Crew
from .fleet import Fleet


class Measuring(ABC):
    """`told` hears of each turn; `trials` have been run, and it was `interrupted` or not."""

    def __init__(
        self,
        log: Log,
        crew: Crew | Fleet,
        device: DeviceKey,
        seed: int,
        told: Callable[[Any], None],
    ) -> None:
        self._log, self._crew, self._device = log, crew, device
        self._seed, self._told = seed, told
        self._confirming = replace(crew.pace, rounds=SURE)
        self.trials, self.interrupted = 0, False

    def run(self, trials: int | None, seconds: float | None) -> None:
        """Measure, until so many trials or so much time are spent; None is without end."""
        try:
            self._run(math.inf if trials is None else trials, seconds)
        except KeyboardInterrupt:
            self.interrupted = True

    @abstractmethod
    def _run(self, trials: float, seconds: float | None) -> None: ...
