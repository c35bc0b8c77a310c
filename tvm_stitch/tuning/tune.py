"""Tune a model into a log, and say what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_stitch.build import Request

from ..errors import StitchError
from .log import Log
from .log.fingerprint import device_key
from .measure.crew import Crew
from .measure.fleet import Fleet
from .measure.rpc_machine import Tracker
from .model.kept import keep, model_of
from .session import Budget, Session
from .table import describe, render
from .tasks import Tasks, tasks_of


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


def tune(asked: Asked, told: Callable[[Session], None]) -> str:
    """Return a table of what was found; `told` hears of each batch. Raises: StitchError."""
    with Log.open(asked.log, create=True) as log:
        found = tasks_of(Request(asked.model, **asked.options))
        if not found.tasks:
            raise StitchError(asked.model, "has no kernel of our templates", "compile it as it is")
        device, threads = device_key(found.device), found.device.threads
        model = model_of(log, device, found.device.mcpu)
        with _measuring(asked.tracker, found) as crew:
            shared = (log, crew, found.target, found.device, model, asked.seed, told)
            session = Session(found.tasks, *shared)
            session.run(Budget(asked.trials, asked.seconds))
        samples = keep(log, device)
    head = f"{asked.model}: {len(found.tasks)} kernels, {threads} threads, --seed {asked.seed}"
    return "\n".join([head, render(session), describe(samples, asked.seed)])


def _measuring(tracker: Tracker | None, found: Tasks) -> Crew | Fleet:
    threads = found.device.threads
    if tracker is None:
        return Crew(found.target, threads, threads)
    return Fleet(tracker, found.target, threads, device_key(found.device))
