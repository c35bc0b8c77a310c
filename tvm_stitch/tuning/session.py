"""Tuning a model: its kernels in turns, each trial in the log as soon as its batch is measured."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm.target import Target

from tir_schedules.device import Device

from ..profiling.calibration.meeting import POLICY as MEETING
from .kernel_tuner import CONFIRM, DONE, NEW, KernelTuner
from .log import Log, Trial
from .log.fingerprint import device_key
from .log.trial import SURE
from .measure.confirmed import TWICE, measured_often, measured_twice
from .measure.crew import Crew
from .measure.fleet import Fleet
from .measure.outcome import Outcome
from .measure.subject import KernelSubject
from .model.gains import GainModel
from .policy import POLICY, SessionPolicy
from .records import carried_of, decisions_of, trial, workload_record
from .tasks import Task


@dataclass(frozen=True)
class Budget:
    """When to stop: after so many trials, or so many seconds; None is without end."""

    trials: int | None = None
    seconds: float | None = None


class Session:
    """The kernels of a model that are tuned, and how far each is."""

    def __init__(
        self,
        tasks: Sequence[Task],
        log: Log,
        crew: Crew | Fleet,
        target: Target,
        device: Device,
        model: GainModel,
        seed: int,
        told: Callable[[Session], None],
        policy: SessionPolicy = POLICY.session,
    ) -> None:
        self._policy = policy
        slice_ns = max(policy.confirming.slice_ns, crew.pace.slice_ns)
        self._confirming = replace(crew.pace, rounds=SURE, slice_ns=slice_ns)
        self._log, self._crew, self._told = log, crew, told
        self._device, self._seed = device_key(device), seed
        self._begun = lambda task: KernelTuner(task, target, model, seed, policy.batch)
        self.tuners = [self._begun(task) for task in tasks]
        self.trials, self.interrupted = 0, False
        self._made: dict[KernelTuner, list[str]] = {}  # uids of trials since threads moved
        self._usual_ns = math.inf  # that threads take to meet
        self._at: KernelTuner | None = None
        self._took: dict[int, list[float]] = {}  # seconds, by libraries: a batch is of one

    @property
    def ns(self) -> float:
        """What all kernels take in one run of the model, by the best decisions so far."""
        return sum(tuner.ns for tuner in self.tuners)

    @property
    def default_ns(self) -> float:
        return sum(tuner.task.calls * tuner.default_ns for tuner in self.tuners)

    def run(self, budget: Budget) -> None:
        """Tune until the budget is spent, or nothing that is worth a search is left.

        What was measured is in the log when Ctrl-C ends it.
        """
        try:
            self._run(budget)
        except KeyboardInterrupt:
            self.interrupted = True

    def _run(self, budget: Budget) -> None:
        end = None if budget.seconds is None else time.monotonic() + budget.seconds
        self._recall(self.tuners)
        while (tuner := self._next(budget, end)) is not None:
            self._measure(tuner, tuner.next())
        for tuner in sorted(self.tuners, key=lambda each: -each.ns):
            if (last := tuner.finish()) and (end is None or time.monotonic() < end):
                self._measure(tuner, last)

    def _recall(self, tuners: Iterable[KernelTuner]) -> None:
        for tuner in tuners:
            tuner.recall(self._known(tuner))
            tuner.suggest(self._likely(tuner))

    def _restart(self, were_apart: bool) -> None:
        """Begin anew: threads were apart since they moved, or are from now on.

        What was confirmed before they are stays so; of the log what was timed while they were goes.
        """
        if were_apart:
            void = [each for each in self.tuners if each in self._made]
            self.trials -= sum(map(len, self._made.values()))
            self._log.remove([uid for uids in self._made.values() for uid in uids])
        else:
            void = [each for each in self.tuners if each.stage != DONE]
        new = {each: self._begun(each.task) for each in void}
        self.tuners = [new.get(each, each) for each in self.tuners]
        self._made, self._at = {}, None
        if were_apart:
            self._recall(new.values())

    def _next(self, budget: Budget, end: float | None) -> KernelTuner | None:
        """Return the kernel of which most of the model's time is predicted to be gained."""
        left = self._confirmable([each for each in self.tuners if each.stage != DONE], end)
        if not left or (budget.trials is not None and self.trials >= budget.trials):
            return None
        if sum(each.promise for each in left) < self._policy.worth * self.ns:
            return None
        most = max(left, key=lambda each: each.promise)
        stays = self._at in left and self._at.promise > self._policy.stays * most.promise
        return self._at if stays else most

    def _confirmable(self, tuners: list[KernelTuner], end: float | None) -> list[KernelTuner]:
        """Return those for whose search there is time, once what was begun has been confirmed."""
        if end is None:
            return tuners
        begun = [each for each in tuners if each.stage != NEW]
        new = [self._confirming_s(each) for each in tuners if each.stage == NEW]
        spare = end - time.monotonic() - self._seconds(1) - sum(map(self._confirming_s, begun))
        if spare > max(new, default=0.0):
            return tuners
        return begun if spare > 0.0 else []

    def _confirming_s(self, tuner: KernelTuner) -> float:
        return max(self._policy.confirm_s, self._seconds(self._to_confirm(tuner)))

    def _seconds(self, libraries: int) -> float:
        """Return what timing in so many libraries takes, as far as that is known."""
        if took := self._took.get(libraries):
            return sum(took) / len(took)
        return libraries * self._seconds(1) if libraries > 1 else 0.0

    def _to_confirm(self, tuner: KernelTuner) -> int:
        """Return in how many libraries the best of a kernel are timed once more, at most."""
        policy = self._policy.confirming
        return policy.readings if tuner.ns >= policy.share * self.ns else TWICE

    def _measure(self, tuner: KernelTuner, batch: list[Any]) -> None:
        if not batch:
            return
        start, libraries = time.monotonic(), self._libraries(tuner)
        if self._at is not tuner:
            task = tuner.task
            subject = KernelSubject(task.candidates, task.weights, task.weight_bytes)
            self._crew.take(subject, self._seed)
            self._at = tuner
        outcomes = self._timed(tuner, batch, libraries)
        self._took.setdefault(libraries, []).append(time.monotonic() - start)
        before, now = self._usual_ns, self._crew.usual_ns
        if not self._made or MEETING.is_moved(now, before):
            self._usual_ns = now
        if self._made and self._usual_ns != before:
            self._restart(were_apart=now < before)
            self._told(self)
            return
        self.trials += len(outcomes)
        tuner.hear(outcomes)
        made = [self._trial(tuner, outcome) for outcome in outcomes]
        self._log.append([workload_record(tuner.task.candidates)], [self._device], made)
        self._made.setdefault(tuner, []).extend(each.uid for each in made)
        self._told(self)

    def _libraries(self, tuner: KernelTuner) -> int:
        """Return in how many libraries a batch is timed."""
        if tuner.stage != CONFIRM:
            return 1
        searched = tuner.timed >= self._policy.confirming.timed
        return self._to_confirm(tuner) if searched else TWICE

    def _timed(self, tuner: KernelTuner, batch: list[Any], libraries: int) -> list[Outcome]:
        policy = self._policy.confirming
        if libraries == 1:
            return self._crew.measure(batch)
        if libraries == TWICE:
            few = batch[: 1 + policy.few]
            return tuner.pooled(measured_twice(self._crew, few, self._confirming))
        brief = tuner.default_ns <= policy.brief_ns
        return measured_often(self._crew, batch, self._confirming, libraries, brief)

    def _trial(self, tuner: KernelTuner, outcome: Outcome) -> Trial:
        row = None if outcome.ns is None else tuner.row(outcome.decisions)
        return trial(tuner.task.candidates, self._device, outcome, row)

    def _known(self, tuner: KernelTuner) -> Iterator[tuple[Any, float, float]]:
        """Yield what the log has of a kernel on this device, the oldest first."""
        key = tuner.task.candidates.workload.key
        for each in self._log.trials(key, self._device.key):
            decisions = decisions_of(tuner.task.candidates, each)
            if decisions is not None and each.ns is not None:
                yield decisions, each.ns, each.default_ns

    def _likely(self, tuner: KernelTuner) -> Iterator[Any]:
        """Yield what is best of kernels of the same structure, as far as it can be decided here."""
        structure = tuner.task.candidates.workload.structure
        for each in self._log.near(structure, self._device.key):
            decisions = carried_of(tuner.task.candidates, each)
            if decisions is not None:
                yield decisions
