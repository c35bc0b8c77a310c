"""What a log says of a kernel: tuned, tuned in another size, or learned of other kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tvm import tirx
from tvm.ir import IRModule

from relay_passes.fusion.stitch_ops import Planner
from tir_schedules.decision_source import DEFAULT, TUNED, Decided, using
from tir_schedules.device import Device
from tir_schedules.kernel_ir.stage import Kernel
from tir_schedules.tuning.candidates import Candidates

from .log import Log, Trial
from .log.fingerprint import device_key, family
from .log.trial import SURE
from .model.kept import model_of
from .model.rows import from_json
from .plans.choosing import ChoosingSource
from .policy import POLICY, ReusePolicy
from .records import carried_of, decisions_of, features_of
from .whole.parts import EVERY, FUSION, KERNELS, measured_parts

NEAR, LEARNT = "near", "learnt"
_TOLD = {
    EVERY: "",
    (FUSION,): "; the model is faster by its fusions alone",
    (KERNELS,): "; the model is faster by its kernels alone",
    (): "; the model was measured no faster by it, and runs by default",
}


class LogSource(ChoosingSource):
    """What a log tells of kernels and of fusion plans, for any device that it is asked about.

    In a `with`, all that is fused and scheduled asks it:

        with LogSource.open("tuning.db"):
            executable = tvm.compile(mod, target, relax_pipeline="tvm_stitch")

    `parts` are what of it is asked: fusion, kernels, or as None both.
    """

    def __init__(self, log: Log, parts: Sequence[str] | None = None) -> None:
        super().__init__(log)
        self._parts = EVERY if parts is None else tuple(parts)
        self._reuse: dict[Device, Reuse] = {}
        self._told: dict[tuple[Device, str], Decided] = {}
        self._entered = ExitStack()

    @classmethod
    def open(cls, where: str | Path, parts: Sequence[str] | None = None) -> LogSource:
        """Raises: StitchError if there is no log of this release."""
        return cls(Log.open(where), parts)

    def __enter__(self) -> LogSource:
        self._entered.enter_context(self._log)
        self._entered.enter_context(using(self))
        return self

    def __exit__(self, *raised: object) -> None:
        self._entered.__exit__(*raised)

    def settles(self, module: IRModule, device: Device) -> bool:
        """Go on by less of the log if the model that is this module was measured to be faster so.

        Returns whether it does.
        """
        before, key = self._parts, device_key(device).key
        self._parts = measured_parts(self._log, key, module)
        return self._parts != before

    def form(self, op: str, forms: Sequence[str], device: Device) -> str:
        return super().form(op, forms, device) if FUSION in self._parts else forms[0]

    def planner(self, usual: Planner, device: Device) -> Planner:
        return super().planner(usual, device) if FUSION in self._parts else usual

    def decide(self, func: tirx.PrimFunc, kernel: Kernel, device: Device) -> Decided | None:
        candidates = Candidates.of_kernel(kernel, device, func)
        if isinstance(candidates, str):
            return None
        if KERNELS not in self._parts:
            return Decided(candidates.default, DEFAULT, 1.0)
        key = (device, candidates.workload.key)
        if key not in self._told:
            if device not in self._reuse:
                self._reuse[device] = Reuse(self._log, device)
            self._told[key] = self._reuse[device].decide(candidates)
        return self._told[key]

    def about(self, device: Device) -> str:
        """Return what of the log is of a device: other devices' trials decide nothing."""
        mine = self._log.count(device_key(device).key)
        others = self._log.counts()["trials"] - mine
        left = f", {others} of other devices or thread counts are left out" if others else ""
        return f"{self._log.name}: {mine} trials of this device{left}{_TOLD[self._parts]}"


class Reuse:
    """Decides by a log's trials on a device; the log is read when it is made, and per kernel."""

    def __init__(self, log: Log, device: Device, policy: ReusePolicy = POLICY.reuse) -> None:
        self._policy = policy
        key = device_key(device)
        self._log, self._device = log, key.key
        self._model = model_of(log, key, family(device))

    def decide(self, candidates: Candidates) -> Decided:
        """Return what to run a kernel by: the same for the same log."""
        return (
            self._tuned(candidates)
            or self._near(candidates)
            or self._learnt(candidates)
            or Decided(candidates.default, DEFAULT, 1.0)
        )

    def _tuned(self, candidates: Candidates) -> Decided | None:
        found = self._log.best(candidates.workload.key, self._device)
        if found is None:
            return None
        decisions = _decisions(candidates, found)
        if decisions is None:
            return None
        if not self._is_worth(found):  # it was searched in vain
            return Decided(candidates.default, TUNED, 1.0)
        return Decided(decisions, TUNED, _gain(found))

    def _near(self, candidates: Candidates) -> Decided | None:
        """Of kernels alike, what the nearest in size gained by, unless the model thinks it slower.

        A kernel of another size gained by what is wrong of the default there: it says nothing of
        one whose buffers lie in another level of memory, or that is a few register tiles.
        """
        usual = features_of(candidates, candidates.default)
        if usual["predicted"] < math.log2(self._policy.near_ns):
            return None

        def apart(trial: Trial) -> tuple[float, str]:
            return abs(math.log2(trial.default_ns) - usual["predicted"]), trial.uid

        found = self._log.near(candidates.workload.structure, self._device)
        alike = [each for each in found if _level(each) == usual.get("level")]
        carried = ((each, carried_of(candidates, each)) for each in sorted(alike, key=apart))
        plans = ((each, d) for each, d in carried if d is not None and _is_plan(candidates, d))
        trial, decisions = next(plans, (None, candidates.default))
        if decisions == candidates.default or not self._is_worth(trial):
            return None
        (predicted,) = self._model.predict([features_of(candidates, decisions)])
        return Decided(decisions, NEAR, _gain(trial)) if predicted > -self._policy.worth else None

    def _is_worth(self, trial: Trial) -> bool:
        """Whether a trial gains enough: of many that are timed shortly the luckiest leads."""
        least = self._policy.worth if trial.runs >= SURE else self._policy.unsure
        return math.log2(_gain(trial)) >= least

    def _learnt(self, candidates: Candidates) -> Decided | None:
        """Change a knob at a time by what is predicted best, if it gains more than the error."""
        if self._model.booster is None:
            return None
        best, gain = candidates.default, 0.0
        for _ in range(self._policy.steps):
            legal = [d for d in candidates.neighbours(best) if _is_plan(candidates, d)]
            predicted = self._model.predict([features_of(candidates, d) for d in legal])
            if not len(predicted) or float(predicted.max()) < gain + self._policy.worth:
                break
            best, gain = legal[int(predicted.argmax())], float(predicted.max())
        if gain - self._policy.errors * self._model.error < self._policy.worth:
            return None
        return Decided(best, LEARNT, 2.0**gain)


def _gain(trial: Trial) -> float:
    return trial.default_ns / trial.ns


def _level(trial: Trial) -> float | None:
    """Return which level of memory held what the trial's kernel reads and writes.

    NaN, which no kernel's is, if its features are no row of numbers.
    """
    try:
        return None if trial.features is None else from_json(trial.features).get("level")
    except ValueError:
        return math.nan


def _is_plan(candidates: Candidates, decisions: Any) -> bool:
    return not isinstance(candidates.plan(decisions), str)


def _decisions(candidates: Candidates, found: Trial) -> Any:
    """Return what a trial decided, None if it is not of the kernel's space or has no plan here."""
    decisions = decisions_of(candidates, found)
    return decisions if decisions is not None and _is_plan(candidates, decisions) else None
