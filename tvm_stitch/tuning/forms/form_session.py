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

from ..log import DeviceKey, Log, PlanChoice
from ..measure.confirmed import above_noise, measured_twice
from ..measure.crew import Crew
from ..measure.measuring import Measuring
from ..measure.outcome import Outcome, Pace
from ..measure.told_forms import Forms
from .choices import key_of
from .form_policy import DEFAULT, FormPolicy


class ModelSubject:
    """A model as a worker measures it: candidates are forms of its ops."""

    kind = "model"
    default: Forms = ()

    def __init__(self, path: Path, options: Mapping[str, Any]) -> None:
        self._path = path
        self._options = dict(options)
        if options.get("profile") is not None:  # a worker runs in a folder of its own
            self._options["profile"] = str(Path(options["profile"]).resolve())

    def copies(self, _pace: Pace) -> tuple[int, None]:
        """A model's own buffers are as in use."""
        return 1, None

    def message(self) -> dict[str, Any]:
        return {"path": str(self._path.resolve()), "options": self._options}

    def text(self, candidate: Forms) -> str:
        return json.dumps(candidate)


class FormSession(Measuring):
    """The ops of a model that may take several forms, and how far each is.

    Ops of which the log has a choice are not measured again. Choices are in the log once all are
    confirmed: Ctrl-C before leaves them to be measured anew.
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
        super().__init__(log, crew, device, seed, told)
        self._subject, self._policy = subject, policy
        self._open = {op: able for op, able in forms.items() if self._is_open(op, able)}
        self.measured: set[str] = set()
        self.taken: Forms = ()
        self.ns = self.default_ns = 0.0

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
                least = best[op].log_gain if op in best else self._policy.better
                if outcome.log_gain > least:
                    best[op] = outcome
            if self.ns > 0.0:
                self._told(self)
        if best:
            self._confirm(best)
        self._log.add_choices([self._device], self._records())

    def _confirm(self, best: Mapping[str, Outcome]) -> None:
        """Take all that is better, or the best alone, if that is so for longer too."""
        order = sorted(best.values(), key=lambda each: each.log_gain, reverse=True)
        every = tuple(pair for each in order for pair in each.decisions)
        usual = self._subject.default
        candidates = dict.fromkeys((usual, every, order[0].decisions))
        outcomes = measured_twice(self._crew, [*candidates], self._confirming)
        self.trials += len(outcomes)
        gains = above_noise(outcomes, usual, self._policy.better)
        self.taken = max(gains, key=gains.__getitem__)
        if self.taken != usual:
            found = next(each for each in outcomes if each.decisions == self.taken)
            self.ns, self.default_ns = found.ns, found.default_ns

    def _measure(self, candidates: list[Forms]) -> list[Outcome]:
        outcomes = self._crew.measure(candidates)
        self.trials += len(outcomes)
        for each in outcomes:
            self.default_ns = self.default_ns or each.default_ns or 0.0
        self.ns = self.ns or self.default_ns
        return outcomes

    def _batches(self) -> Iterator[list[Forms]]:
        """Yield candidates: all forms of an op are in one batch, so that it is settled or open."""
        batch: list[Forms] = []
        for op, able in self._open.items():
            batch += [((op, form),) for form in able[1:]]
            if len(batch) >= self._policy.batch:
                yield batch
                batch = []
        if batch:
            yield batch

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
