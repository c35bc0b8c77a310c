"""Tune a model into a log, and say what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm.ir import IRModule

from tir_schedules.decision_source import using
from tir_schedules.host import available_cpus
from tvm_stitch.build import Request, lower
from tvm_stitch.runtime.gpu_driver import gpu
from tvm_stitch.targets import gpu_arch

from ..errors import StitchError
from ..profiling.others import cpus_taken
from .forms.choices import Asking
from .forms.form_session import FormSession, ModelSubject
from .log import DeviceKey, Log
from .log.fingerprint import device_key, family
from .lowered_model import lowered_model
from .measure.crew import Crew
from .measure.fleet import Fleet
from .measure.outcome import GPU_PACE
from .measure.rpc_machine import Tracker
from .model.kept import keep, model_of
from .plans.choosing import ChoosingSource
from .plans.model_regions import regions_of
from .plans.plan_session import PlanSession
from .policy import POLICY
from .reuse import LogSource
from .session import Budget, Session
from .table import describe, render, render_forms, render_plans, render_whole
from .tasks import UNFUSED, Tasks, tasks_in, tasks_of
from .whole.parts import Parts
from .whole.whole_session import TunedSubject, WholeSession


@dataclass(frozen=True)
class Asked:
    """What to tune, with the keywords of `compile`, into which log, for how long."""

    model: Path
    options: Mapping[str, Any]
    log: str
    trials: int | None
    seconds: float | None
    seed: int
    tracker: Tracker | None = None  # whose machines measure; without one this machine does


def tune(asked: Asked, told: Callable[[Any], None]) -> str:
    """Return a table of what was found; `told` hears of each batch. Raises: StitchError.

    Forms of ops come first, then parts of the fusion plan: kernels are those of what is chosen. At
    the end the model by its log is timed beside its default. `told` is given the session of each.
    """
    start = time.monotonic()
    with Log.open(asked.log, create=True) as log:
        request, chooses = Request(asked.model, **asked.options), ChoosingSource(log)
        with using(asking := Asking(chooses)):
            model = lowered_model(request)
        lowering_s = time.monotonic() - start
        found = tasks_in(model)
        if not found.tasks:
            raise StitchError(asked.model, "has no kernel of our templates", "compile it as it is")
        device, arch = device_key(found.device), gpu_arch(found.target)
        gains = model_of(log, device, family(found.device))
        taken = cpus_taken() if asked.tracker is None and not arch else 0.0
        with _measuring(asked.tracker, found) as crew:
            here = asked.tracker is None and not arch  # where the model's file is
            affordable = here and POLICY.forms.begins(asked.seconds, lowering_s)
            subject = ModelSubject(asked.model, asked.options)
            forms = FormSession(subject, asking.forms, log, crew, device, asked.seed, told)
            if affordable:
                forms.run(*_share(asked, POLICY.forms.share))
            if forms.taken:
                with using(chooses):
                    model = lowered_model(request)
            parts = regions_of(model.lowered.stages[UNFUSED], found.target, found.device)
            plans = PlanSession(parts, log, crew, device, asked.seed, told)
            if not forms.interrupted:
                plans.run(*_share(asked, POLICY.plans.share))
            if log.regroups(device.key):
                with using(chooses):
                    found = tasks_of(request)
            shared = (log, crew, found.target, found.device, gains, asked.seed, told)
            session = Session(found.tasks, *shared)
            session.interrupted = forms.interrupted or plans.interrupted
            kept = POLICY.whole.share if affordable else 0.0
            if not session.interrupted:
                session.run(_left(asked, forms.trials + plans.trials, start, kept))
            whole = _whole(asked, request, log, crew, device, told)
            if affordable and not session.interrupted:
                whole.run(None, _share(asked, kept)[1])
        samples = keep(log, device)
    place = f"cuda:{arch}" if arch else f"{found.device.threads} threads"
    head = f"{asked.model}: {len(found.tasks)} kernels, {place}, --seed {asked.seed}"
    lines = [head, *([_busy(taken)] if taken > POLICY.session.taken else [])]
    lines += [render_forms(forms)] if forms.measured else []
    lines += [render_plans(plans)] if plans.chosen else []
    lines += [render(session)]
    lines += [render_whole(whole)] if whole.taken is not None else []
    return "\n".join([*lines, describe(samples, asked.seed)])


def _whole(
    asked: Asked,
    request: Request,
    log: Log,
    crew: Crew | Fleet,
    device: DeviceKey,
    told: Callable[[WholeSession], None],
) -> WholeSession:
    """Return what times the model by its log beside its default."""
    where = asked.log if log.path is None else str(log.path.resolve())

    def made(parts: Parts) -> IRModule:
        with using(LogSource(log, parts)):
            return lower(request).mod

    subject = TunedSubject(asked.model, asked.options, where)
    return WholeSession(subject, made, log, crew, device, asked.seed, told)


def _busy(taken: float) -> str:
    return (
        f"other processes took {taken:.1f} CPUs when it began: what is found suits a machine that "
        "busy; tune again, into a log of its own, where it is idle"
    )


def _share(asked: Asked, share: float) -> tuple[int | None, float | None]:
    """Return a share of the trials and of the seconds."""
    trials, seconds = asked.trials, asked.seconds
    return trials and int(share * trials), seconds and share * seconds


def _left(asked: Asked, trials: int, start: float, kept: float) -> Budget:
    """Return what of a budget is left for kernels, a share of it being kept."""
    spent = time.monotonic() - start
    seconds = None if asked.seconds is None else max(0.0, asked.seconds * (1.0 - kept) - spent)
    return Budget(None if asked.trials is None else asked.trials - trials, seconds)


def _measuring(tracker: Tracker | None, found: Tasks) -> Crew | Fleet:
    """Return who measures. Raises: StitchError for a GPU that is not this machine's."""
    if arch := gpu_arch(found.target):
        if tracker is not None:
            remedy = "tune where the GPU is, without --tracker"
            raise StitchError(f"--target cuda:{arch}", "a tracker's machines are CPUs", remedy)
        gpu(arch)
        return Crew(found.target, 1, available_cpus(), GPU_PACE)
    threads = found.device.threads
    if tracker is None:
        return Crew(found.target, threads, threads)
    return Fleet(tracker, found.target, threads, device_key(found.device))
