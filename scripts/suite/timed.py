"""Steps that are timed: ours and each peer's calls in turns, beside a copy of as many bytes."""

from __future__ import annotations

import onnx
import zoo

from suite.steps import Step
from suite.subject import subject
from tvm_stitch.errors import StitchError
from tvm_stitch.profiling.harness import Crew, OursDied, compare
from tvm_stitch.profiling.peer import OURS, Job
from tvm_stitch.profiling.rounds import Pace

PEERS = ("xla", "inductor", "torch", "tvm", "onnxruntime")
COPY = "copy-gpu"
PACE = Pace(rounds=7, turn_s=0.06, turn_runs=2000)
_TINY_PACE = Pace(rounds=1, turn_s=0.0, turn_runs=1)  # what fibers take tells nothing
_SETS = 2  # of inputs: what one call leaves in the L2 is not what the next one reads


def timed(crew: Crew, step: Step, seconds: float, peers: tuple[str, ...], tiny: bool) -> dict:
    """Return the rows of a step, `error` in their place if ours does not run."""
    model = subject(step, tiny)
    path = crew.workdir / f"{step.name}.onnx"
    onnx.save(model, path)
    moved, inputs = zoo.traffic_bytes(model), zoo.random_inputs(model)
    job = Job(path, crew.workdir, crew.threads, target="cuda", copy_bytes=moved, gpu=True)
    made = {"bytes": moved, "shapes": {name: value.shape for name, value in inputs.items()}}
    sets = _SETS if step.kind == "row" else 1
    pace = _TINY_PACE if tiny else PACE
    try:
        rows = compare(crew, job, inputs, [OURS, COPY, *peers], seconds, sets=sets, pace=pace)
    except (OursDied, StitchError) as error:
        return {**made, "error": str(error), "wrong": True}
    return {**made, "peers": [row.to_json() for row in rows]}
