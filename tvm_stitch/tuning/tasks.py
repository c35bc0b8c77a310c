"""The kernels of a model that there is something to decide about, and how often each runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm import tirx
from tvm.ir import IRModule
from tvm.target import Target

from tir_schedules.device import Device
from tir_schedules.kernel_ir.stage import Kernel
from tir_schedules.tuning.candidates import Candidates
from tvm_stitch.build import Request
from tvm_stitch.verification.program import read_function

from .lowered_model import LoweredModel, lowered_model

UNFUSED = "AnnotateTIROpPattern"  # the last pass in front of StitchOps
_BEFORE = "DeadCodeElimination"  # the last pass in front of ApplyStitchSchedules


@dataclass(frozen=True)
class Task:
    """A kernel: what may be decided, its name in the model, its calls in one run.

    `weights`: the places of inputs that are; a run of the model reads `weight_bytes` of such.
    """

    candidates: Candidates
    name: str
    calls: int
    weights: tuple[int, ...] = ()
    weight_bytes: int = 0


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
    found: dict[str, Task] = {}
    declined = {}
    for name, (count, weights) in _kernels(module).items():
        func = module[name]
        if not isinstance(func, tirx.PrimFunc):
            continue
        candidates = Candidates.of(func, device)
        if isinstance(candidates, str):
            declined[name] = candidates
            continue
        key = candidates.workload.key
        places = _places(candidates.kernel, weights)
        if (known := found.get(key)) is not None:
            both = tuple(place for place in known.weights if place in places)
            found[key] = replace(known, calls=known.calls + count, weights=both)
        else:
            found[key] = Task(candidates, name, count, places)
    read = sum(task.calls * _nbytes(task) for task in found.values())
    tasks = tuple(replace(task, weight_bytes=read) for task in found.values())
    return Tasks(tasks, declined, lowered.target, device)


def _kernels(module: IRModule) -> dict[str, tuple[int, set[int]]]:
    """Return how often each kernel runs, and which operands are weights in all its calls."""
    main = module["main"]
    program = read_function(module, main)
    inputs = main.attrs["num_input"] if main.attrs and "num_input" in main.attrs else None
    given = {*program.inputs[int(inputs) :]} if inputs is not None else set()
    found: dict[str, tuple[int, set[int]]] = {}
    for step in program.walk():
        if step.kind == "kernel":
            weights = {n for n, v in enumerate(step.inputs) if v.is_constant or v in given}
            count, before = found.get(step.name, (0, weights))
            found[step.name] = count + 1, before & weights
    return found


def _places(kernel: Kernel, operands: set[int]) -> tuple[int, ...]:
    tensors = {kernel.params[operand] for operand in operands}
    return tuple(n for n, tensor in enumerate(kernel.inputs) if tensor in tensors)


def _nbytes(task: Task) -> int:
    return sum(task.candidates.kernel.inputs[place].bytes for place in task.weights)
