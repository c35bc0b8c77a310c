"""Measure the runners-up of a model's regions, and keep what is best in a log."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..log import DeviceKey, Log, PlanChoice
from ..measure.confirmed import above_noise, measured_twice
from ..measure.crew import Crew
from ..measure.fleet import Fleet
from ..measure.measuring import Measuring
from .model_regions import RegionSubject
from .partition import Partition, to_json
from .plan_policy import DEFAULT, PlanPolicy


@dataclass(frozen=True)
class Chosen:
    """What was found of a region: the best partition's time, and that of the planned one."""

    subject: RegionSubject
    partition: Partition
    ns: float
    default_ns: float

    @property
    def is_planned(self) -> bool:
        return self.partition == self.subject.region.planned


class PlanSession(Measuring):
    """The regions of a model that are measured, and how far it is.

    Regions of which the log has a choice are not measured again. Each choice is in the log as soon
    as it is made: that of the planned groups too, where nothing is better. None is begun once less
    time is left than the longest took.
    """

    def __init__(
        self,
        subjects: Sequence[RegionSubject],
        log: Log,
        crew: Crew | Fleet,
        device: DeviceKey,
        seed: int,
        told: Callable[[PlanSession], None] = lambda _session: None,
        policy: PlanPolicy = DEFAULT,
    ) -> None:
        super().__init__(log, crew, device, seed, told)
        self._subjects, self._policy = subjects, policy
        self.chosen: list[Chosen] = []

    @property
    def default_ns(self) -> float:
        """What the measured regions take in one run of the model, grouped as planned."""
        return sum(each.default_ns * each.subject.region.count for each in self.chosen)

    @property
    def ns(self) -> float:
        """What they take by what was chosen."""
        return sum(each.ns * each.subject.region.count for each in self.chosen)

    def _run(self, trials: float, seconds: float | None) -> None:
        end = math.inf if seconds is None else time.monotonic() + seconds
        shares = [s.region.planned_ns * s.region.count for s in self._subjects]
        least, longest = self._policy.worth * sum(shares), 0.0
        for subject, share in zip(self._subjects, shares, strict=True):
            begun = time.monotonic()
            if share < least or self.trials >= trials or begun + longest > end:
                break
            key = subject.region.workload.key
            if self._log.choice(key, self._device.key) is None:
                chosen = self._measured(subject)
                self._log.add_choices([self._device], [self._record(chosen)])
                self.chosen.append(chosen)
                longest = max(longest, time.monotonic() - begun)
                self._told(self)

    def _measured(self, subject: RegionSubject) -> Chosen:
        self._crew.take(subject, self._seed)
        partitions = [each.partition for each in subject.region.alternatives]
        self.trials += len(partitions)
        best = max(self._crew.measure(partitions), key=lambda each: each.log_gain)
        if best.log_gain > self._policy.better:
            pair = [subject.default, best.decisions]
            outcomes = measured_twice(self._crew, pair, self._confirming)
            best = outcomes[1]
            if best.decisions in above_noise(outcomes, subject.default, self._policy.better):
                return Chosen(subject, best.decisions, best.ns, best.default_ns)
        default_ns = best.default_ns or subject.region.planned_ns
        return Chosen(subject, subject.default, default_ns, default_ns)

    def _record(self, chosen: Chosen) -> PlanChoice:
        return PlanChoice(
            uid=uuid.uuid4().hex,
            graph=chosen.subject.region.workload.key,
            device=self._device.key,
            choice=to_json(chosen.partition),
            ns=chosen.ns,
            default_ns=chosen.default_ns,
            created=time.time(),
        )
