"""Measure a model with ops in other forms than the usual, and keep what is best in a log.

The whole model is timed: what a transformed weight takes of the caches shows in no kernel alone.
"""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tir_schedules.device import Device

from ..log import DeviceKey, Log, PlanChoice
from ..log.trial import SURE
from ..measure.crew import Crew
from ..measure.outcome import Outcome, Pace
from ..measure.told_forms import Forms
from .choices import key_of
from .form_policy import DEFAULT, FormPolicy

_CONFIRMING = Pace(rounds=SURE)


class ModelSubject:
    """A model as a worker measures it: candidates are forms of its ops."""

    kind = "model"
    default: Forms = ()
    nbytes = 0  # a model's own buffers are as in use

    def __init__(self, path: Path, options: Mapping[str, Any], device: Device) -> None:
        self._path, self.l3_bytes = path, device.l3_bytes
        self._options = dict(options)
        if options.get("profile") is not None:  # a worker runs in a folder of its own
            self._options["profile"] = str(Path(options["profile"]).resolve())

    def message(self) -> dict[str, Any]:
        return {"path": str(self._path.resolve()), "options": self._options}

    def text(self, candidate: Forms) -> str:
        return json.dumps(candidate)


class FormSession:
    """The ops of a model that may take several forms, and how far each is.

    Ops of which the log has a choice are not measured again.
    """

    def __init__(
        self,
        subject: ModelSubject,
        forms: Mapping[str, tuple[str, ...]],
        log: Log,
        crew: Crew,
        device: DeviceKey,
        seed: int,
        told: Callable[[FormSession], None] = lambda _session: None,
        policy: FormPolicy = DEFAULT,
    ) -> None:
        self._subject, self._log, self._crew = subject, log, crew
        self._device, self._seed, self._told, self._policy = device, seed, told, policy
        self._open = {op: able for op, able in forms.items() if self._is_open(op, able)}
        self.measured: set[str] = set()
        self.taken: Forms = ()
        self.ns = self.default_ns = 0.0
        self.trials, self.interrupted = 0, False

    def run(self, trials: int | None, seconds: float | None) -> None:
        """Measure until so many trials or so much time are spent.

        What was measured is in the log when Ctrl-C ends it.
        """
        try:
            self._run(math.inf if trials is None else trials, seconds)
        except KeyboardInterrupt:
            self.interrupted = True

    def _run(self, trials: float, seconds: float | None) -> None:
        end = math.inf if seconds is None else time.monotonic() + seconds
        best: dict[str, Outcome] = {}
        for batch in self._batches():
            if self.trials >= trials or time.monotonic() > end:
                break
            if not self.measured:
                self._crew.take(self._subject, self._seed)
            for outcome in self._measure(batch):
                ((op, _),) = outcome.decisions
                self.measured.add(op)
                if _gain(outcome) > max(self._policy.better, _gain(best.get(op))):
                    best[op] = outcome
            if self.ns > 0.0:
                self._told(self)
        if best:
            self._confirm(best)
        self._log.add_choices([self._device], self._records())

    def _confirm(self, best: Mapping[str, Outcome]) -> None:
        """Take all that is better, or the best alone, if that is so for longer too."""
        order = sorted(best.values(), key=_gain, reverse=True)
        every = tuple(pair for each in order for pair in each.decisions)
        candidates = dict.fromkeys((every, order[0].decisions))
        found = max(self._measure([*candidates], _CONFIRMING), key=_gain)
        if _gain(found) > self._policy.better:
            self.taken, self.ns, self.default_ns = found.decisions, found.ns, found.default_ns

    def _measure(self, candidates: list[Forms], pace: Pace | None = None) -> list[Outcome]:
        outcomes = self._crew.measure(candidates, pace)
        self.trials += len(outcomes)
        for each in outcomes:
            self.default_ns = self.default_ns or each.default_ns or 0.0
        self.ns = self.ns or self.default_ns
        return outcomes

    def _batches(self) -> Iterator[list[Forms]]:
        every = [((op, form),) for op, able in self._open.items() for form in able[1:]]
        for at in range(0, len(every), self._policy.batch):
            yield every[at : at + self._policy.batch]

    def _is_open(self, op: str, able: tuple[str, ...]) -> bool:
        return len(able) > 1 and self._log.choice(key_of(op), self._device.key) is None

    def _records(self) -> Iterator[PlanChoice]:
        """Yield a choice for each op that was measured: the usual form where nothing is better."""
        taken = dict(self.taken)
        for op in sorted(self.measured):
            if self.default_ns > 0.0:
                yield PlanChoice(
                    uid=uuid.uuid4().hex,
                    graph=key_of(op),
                    device=self._device.key,
                    choice=json.dumps(taken.get(op, self._open[op][0])),
                    ns=self.ns if op in taken else self.default_ns,
                    default_ns=self.default_ns,
                    created=time.time(),
                )


def _gain(outcome: Outcome | None) -> float:
    """Return the gain in powers of two; what failed gains nothing."""
    failed = outcome is None or outcome.ns is None
    return -math.inf if failed else math.log2(outcome.gain)
