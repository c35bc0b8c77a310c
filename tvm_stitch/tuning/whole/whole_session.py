"""Time a model by a log beside its default, and keep in the log what of it the model goes by.

A kernel that is faster by itself may leave the next one less of a cache, and gains of a percent are
within what the places of code and buffers make: what a user runs is the model.
"""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tvm.ir import IRModule
from tvm_ffi import structural_equal

from ..forms.form_session import ModelSubject
from ..log import DeviceKey, Log, PlanChoice
from ..measure.confirmed import above_noise, measured_often
from ..measure.crew import Crew
from ..measure.measuring import Measuring
from .parts import EVERY, Parts, key_of
from .whole_policy import DEFAULT, WholePolicy


class TunedSubject(ModelSubject):
    """A model as a worker measures it: candidates are the parts of a log that it goes by."""

    kind = "tuned"
    default: Parts = ()

    def __init__(self, path: Path, options: Mapping[str, Any], log: str) -> None:
        super().__init__(path, options)
        self._log = log

    def message(self) -> dict[str, Any]:
        return super().message() | {"log": self._log}


class WholeSession(Measuring):
    """A model by a log, all of it or a part, beside its default.

    `made` lowers it by some parts. What was measured before is not measured again. `taken` is None
    until it is known; what is not faster than the default is left, and then nothing is taken.
    """

    def __init__(
        self,
        subject: TunedSubject,
        made: Callable[[Parts], IRModule],
        log: Log,
        crew: Crew,
        device: DeviceKey,
        seed: int,
        told: Callable[[WholeSession], None] = lambda _session: None,
        policy: WholePolicy = DEFAULT,
    ) -> None:
        super().__init__(log, crew, device, seed, told)
        self._subject, self._made, self._policy = subject, made, policy
        self.taken: Parts | None = None
        self.ns = self.default_ns = 0.0

    def _run(self, trials: float, seconds: float | None) -> None:
        end = math.inf if seconds is None else time.monotonic() + seconds
        usual, every = self._made(()), self._made(EVERY)
        key = key_of(every)
        if structural_equal(usual, every) or self._log.choice(key, self._device.key) is not None:
            return
        self._crew.take(self._subject, self._seed)
        self._measure([EVERY])
        if self.taken == () and self.trials < trials and time.monotonic() < end:
            apart = {(part,): self._made((part,)) for part in EVERY}
            self._measure(
                [
                    parts
                    for parts, module in apart.items()
                    if not any(structural_equal(module, other) for other in (usual, every))
                ]
            )
        if self.taken is not None:
            self._log.add_choices([self._device], [self._record(key)])

    def _measure(self, several: Sequence[Parts]) -> None:
        """Take what is faster than the default in the median, the fastest of several.

        Processes differ by more than rounds in one do: of these a few are enough.
        """
        if not several:
            return
        usual = self._subject.default
        readings, every = self._policy.readings, [usual, *several]
        outcomes = measured_often(self._crew, every, self._crew.pace, readings, renews=True)
        self.trials += len(outcomes)
        times = {each.decisions: each for each in outcomes if each.ns is not None}
        if usual not in times:
            return
        gains = above_noise(outcomes, usual, self._policy.better)
        self.taken = max(gains, key=gains.__getitem__)
        found = times[self.taken]
        self.default_ns = found.default_ns
        self.ns = found.ns if self.taken else found.default_ns
        self._told(self)

    def _record(self, key: str) -> PlanChoice:
        return PlanChoice(
            uid=uuid.uuid4().hex,
            graph=key,
            device=self._device.key,
            choice=json.dumps(self.taken, separators=(",", ":")),
            ns=self.ns,
            default_ns=self.default_ns,
            created=time.time(),
        )
