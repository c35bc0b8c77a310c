"""The kernels of a model that there is something to decide about, and how often each runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tvm import tirx
from tvm.target import Target

from tir_schedules.device import Device
from tir_schedules.tuning.candidates import Candidates
from tvm_stitch.build import Request
from tvm_stitch.verification.program import read_function

from .lowered_model import LoweredModel, lowered_model

UNFUSED = "AnnotateTIROpPattern"  # the last pass in front of StitchOps
_BEFORE = "DeadCodeElimination"  # the last pass in front of ApplyStitchSchedules


@dataclass(frozen=True)
class Task:
    """A kernel: what may be decided, its name in the model, and its calls in one run."""

    candidates: Candidates
    name: str
    calls: int


@dataclass(frozen=True)
class Tasks:
    """What of a model can be tuned for a device, and why the rest can't, by the kernels' names."""

    tasks: tuple[Task, ...]
    declined: dict[str, str]
    target: Target
    device: Device


def tasks_of(request: Request) -> Tasks:
    """Return the tasks of a model. Raises: StitchError as `compile` does."""
    return tasks_in(lowered_model(request))


def tasks_in(model: LoweredModel) -> Tasks:
    """Return the tasks of a model that is lowered."""
    lowered, device = model.lowered, model.device
    module = lowered.stages[_BEFORE]
    steps = read_function(module, module["main"]).walk()
    calls = Counter(step.name for step in steps if step.kind == "kernel")
    found: dict[str, Task] = {}
    declined = {}
    for name, count in calls.items():
        func = module[name]
        if not isinstance(func, tirx.PrimFunc):
            continue
        candidates = Candidates.of(func, device)
        if isinstance(candidates, str):
            declined[name] = candidates
            continue
        key = candidates.workload.key
        known = found.get(key)
        first, before = (known.name, known.calls) if known else (name, 0)
        found[key] = Task(candidates, first, before + count)
    return Tasks(tuple(found.values()), declined, lowered.target, device)
