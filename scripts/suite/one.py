"""One model in a process of its own: python -m suite.one numbers|build|run KIND NAME DTYPE FOLDER

`numbers` prints how far off the results are of float64's; `build` leaves a file, that `run` loads
and runs once, for tools that watch a process. With --simulated fibers play the GPU.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
import zoo

import tvm_stitch
from suite.steps import Step
from suite.subject import subject
from support.cuda.checked import BOUND
from tvm_stitch.profiling import arrays


def numbers(step: Step, _folder: Path, tiny: bool) -> dict:
    """Return the largest error as a share of what is allowed, of an odd size and of a large one."""
    shapes, worst, launches = [None, zoo.bench_shapes(step.name)["cache"]], 0.0, []
    for shape in shapes[:1] if tiny else shapes:
        model = zoo.subgraph(step.name, shape, step.dtype)
        inputs = zoo.random_inputs(model, seed=1)
        compiled = tvm_stitch.compile(model, "cuda")
        launches.append(compiled.report.kernels)
        expected = zoo.reference(step.name, inputs)
        worst = max(worst, _off(compiled.run(inputs), expected, BOUND.get(step.dtype, 1e-5)))
    return {"of_bound": worst, "launches": launches, "wrong": not worst <= 1}


def build(step: Step, folder: Path, tiny: bool) -> dict:
    """Compile the model of a step into `folder`, its inputs beside it."""
    model = subject(step, tiny)
    compiled = tvm_stitch.compile(model, "cuda")
    compiled.export(folder / "model.so")
    listed = arrays.save(zoo.random_inputs(model), folder, "input")
    (folder / "inputs.json").write_text(json.dumps(listed))
    return {"launches": compiled.report.kernels, "bytes": zoo.traffic_bytes(model)}


def run(_step: Step, folder: Path, _tiny: bool) -> dict:
    """Run once what `build` left."""
    inputs = arrays.load(json.loads((folder / "inputs.json").read_text()))
    found = tvm_stitch.load(folder / "model.so").run(inputs)
    return {"outputs": len(found)}


def _off(got: dict, expected: dict, bound: float) -> float:
    worst = 0.0
    for name, ref in expected.items():
        allowed = bound * (np.abs(ref) + np.abs(ref).max())
        error = np.abs(got[name].astype(np.float64) - ref) / allowed
        worst = max(worst, float(np.nan_to_num(error, nan=math.inf).max()))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["numbers", "build", "run"])
    parser.add_argument("kind")
    parser.add_argument("name")
    parser.add_argument("dtype")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--simulated", action="store_true")
    args = parser.parse_args()
    if args.simulated:
        from support.simt import machine

        machine.install(args.folder)
    step = Step(args.kind, args.name, args.dtype)
    made = {"numbers": numbers, "build": build, "run": run}[args.what]
    print(json.dumps(made(step, args.folder, args.simulated)))


if __name__ == "__main__":
    main()
