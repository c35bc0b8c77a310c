"""A profile from a log: its kernels are read, planned as they were measured, and judged anew."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tir_schedules.backend import Plan, backend
from tir_schedules.decisions import DecisionsError, from_json
from tir_schedules.device import Device
from tir_schedules.device.profile import Profile
from tir_schedules.tuning.features import predicted_ns
from tir_schedules.tuning.workload import workload_of
from tir_schedules.tuning.workload_reader import WorkloadError, read_workload

from ...errors import StitchError
from ..log import Log, Trial, Workload
from ..log.fingerprint import device_key
from .figures import FIGURES, scaled
from .fit import POLICY, Fit, fit


@dataclass(frozen=True)
class Measured:
    """A plan that was measured, of which kernel, and what it took."""

    kernel: str
    plan: Plan
    ns: float


@dataclass(frozen=True)
class Refitted:
    """The profile that a log tells, how it was fitted, and to what."""

    profile: Profile
    fit: Fit
    plans: int
    kernels: int


def refit(log: Log, device: Device, command: str) -> Refitted:
    """Return the device's profile fitted to its trials. Raises: StitchError if they are too few."""
    found = [each for workload in log.workloads() for each in _measured(log, workload, device)]
    kernels = [each.kernel for each in found]
    if len({*kernels}) < POLICY.fewest:
        rule = f"has trials of {len({*kernels})} kernels of this device, fewer than {POLICY.fewest}"
        raise StitchError(log.name, rule, "tune more models into it first")

    def predict(powers: Sequence[float]) -> np.ndarray:
        judged = replace(device, profile=scaled(device.profile, powers))
        return np.log2([predicted_ns(each.plan, judged) for each in found])

    measured = np.log2([each.ns for each in found])
    fitted = fit(predict, measured, kernels, len(FIGURES))
    profile = replace(scaled(device.profile, fitted.powers), command=command)
    return Refitted(profile, fitted, len(found), len({*kernels}))


def describe(found: Refitted) -> Iterator[str]:
    """Yield lines for a terminal: how far times are off, and which figures change."""
    errors = (f"{2.0**e:.2f}" for e in (found.fit.before, found.fit.after, found.fit.unseen))
    before, after, unseen = errors
    yield f"{found.plans} plans of {found.kernels} kernels"
    yield f"predicted times are off {before} times, {after} refitted, {unseen} of kernels unseen"
    for name, power in zip(FIGURES, found.fit.powers, strict=True):
        if abs(power) >= math.log2(1.01):
            yield f"{name} takes {2.0**power:.2f} times as long"


def _measured(log: Log, workload: Workload, device: Device) -> Iterator[Measured]:
    trials = log.trials(workload.key, device_key(device).key)
    known = sorted((t for t in trials if t.ns is not None), key=lambda t: (t.ns, t.uid))
    if not known:
        return
    template = backend(device)
    try:
        kernel = read_workload(workload.text)
        if workload_of(kernel).key != workload.key:
            raise WorkloadError("its text is another kernel's")
    except WorkloadError as error:
        given = f"{log.name}, workload {workload.key[:12]}"
        raise StitchError(given, str(error), "delete it, or use another log") from None
    kind = template.default_decisions(kernel, device)
    if isinstance(kind, str):
        return  # no kernel of this release's template
    for each in _spread(known):
        try:
            plan = template.plan(kernel, from_json(type(kind), each.decisions), device)
        except DecisionsError:
            continue  # of another release
        if not isinstance(plan, str):
            yield Measured(workload.key, plan, each.ns)


def _spread(trials: Sequence[Trial]) -> list[Trial]:
    """Return some of the trials, from the fastest to the slowest."""
    count = min(POLICY.plans, len(trials))
    return [trials[n * len(trials) // count] for n in range(count)]
