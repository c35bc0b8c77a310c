"""Check and time everything on the GPU of this machine: one command, that goes on where it ended.

    python scripts/gpu_suite.py --budget 540          # docs/results/gpu_suite.{json,md}
    python scripts/gpu_suite.py --only row --names softmax --dtypes float32
    python scripts/gpu_suite.py --simulated           # fibers play the GPU: tiny models, no peers

Numbers of every subgraph against float64; rows past the L2 and whole models against XLA, Inductor,
PyTorch, TVM with dlight and ONNX Runtime, calls in turns, beside a copy of the same bytes; DRAM
bytes by ncu; memcheck and racecheck on a sample. A step that is in the record of the same code and
GPU is not run again. docs/gpu.md says what a machine without a network needs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import tvm
import zoo
from checks import ROOT
from suite import record, table
from suite.child import asked
from suite.steps import DTYPES, KINDS, Step, steps
from suite.timed import PEERS, timed
from suite.tools import watched

from tir_schedules.host import available_cpus
from tvm_stitch.profiling.harness import Crew
from tvm_stitch.runtime.gpu_driver import own_arch

SECONDS = {"numbers": 90, "row": 60, "model": 150, "traffic": 60, "memcheck": 60, "racecheck": 60}
LEAST_S = {"numbers": 15, "row": 20, "model": 60, "traffic": 20, "memcheck": 20, "racecheck": 20}
SIMULATED = "the simulated GPU"


def main() -> int:
    """Run what is not in the record yet; return 0 if all of it is there and nothing is wrong."""
    args = _arguments()
    device = SIMULATED if args.simulated else own_gpu()
    if device is None:
        print("gpu_suite.py: no CUDA device or driver here: try --simulated", file=sys.stderr)
        return 1
    found = record.load(args.output.with_suffix(".json"), device)
    asked_for = [step for step in steps() if _is_asked(step, args)]
    todo = [step for step in asked_for if step.key not in found["steps"]]
    Suite(args, found).run(todo)
    left = [step for step in asked_for if step.key not in found["steps"]]
    wrong = [key for key, made in found["steps"].items() if made.get("wrong")]
    args.output.with_suffix(".md").write_text(table.render(found))
    print(table.summary(found))
    print(f"{len(asked_for) - len(left)} of {len(asked_for)} steps, {len(wrong)} wrong: {wrong}")
    return int(bool(left or wrong))


class Suite:
    """Runs steps until its time is up; each that ends is in the record at once."""

    def __init__(self, args: argparse.Namespace, found: dict) -> None:
        self._args, self._record = args, found
        self._end = time.monotonic() + args.budget

    def run(self, todo: Sequence[Step]) -> None:
        beside = [step for step in todo if step.kind == "numbers"]
        with ThreadPoolExecutor(max(1, available_cpus() // 2)) as pool:
            running = {pool.submit(self._numbers, step): step for step in beside}
            for done in as_completed(running):
                self._put(running[done], done.result())
        worker = {"worker": "support.simt.machine.worker"} if self._args.simulated else {}
        with Crew(available_cpus(), gpu=True, **worker) as crew:
            for step in todo:
                if step.kind != "numbers":
                    self._put(step, self._alone(crew, step))

    def _numbers(self, step: Step) -> dict | None:
        if not (seconds := self._seconds(step)):
            return None
        with tempfile.TemporaryDirectory(prefix="tvm-stitch-") as folder:
            return asked("numbers", step, Path(folder), seconds, self._args.simulated)

    def _alone(self, crew: Crew, step: Step) -> dict | None:
        if not (seconds := self._seconds(step)):
            return None
        if step.kind in ("row", "model"):
            return timed(crew, step, seconds, self._args.against, self._args.simulated)
        return watched(step, seconds, self._args.simulated)

    def _seconds(self, step: Step) -> float:
        """Return what a step may take, 0 if too little time is left for it."""
        left = self._end - time.monotonic()
        return min(left, SECONDS[step.kind]) if left >= LEAST_S[step.kind] else 0

    def _put(self, step: Step, made: dict | None) -> None:
        if made is not None:
            self._record["steps"][step.key] = made
            record.write(self._args.output.with_suffix(".json"), self._record)
            print(f"{step.key}: {table.told(made)}", file=sys.stderr, flush=True)


def own_gpu() -> str | None:
    """Return what the first GPU is called, None if there is none."""
    return tvm.cuda(0).device_name if own_arch() else None


def _is_asked(step: Step, args: argparse.Namespace) -> bool:
    return step.kind in args.only and step.name in args.names and step.dtype in args.dtypes


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", type=_listed, default=KINDS, metavar="KIND,KIND")
    names = [*zoo.SUBGRAPHS, *zoo.MODELS]
    parser.add_argument("--names", type=_listed, default=names, metavar="A,B")
    parser.add_argument("--dtypes", type=_listed, default=DTYPES, metavar="A,B")
    parser.add_argument("--against", type=_listed, metavar="PEER,PEER")
    parser.add_argument("--budget", type=float, default=540.0, help="seconds in all")
    parser.add_argument("--simulated", action="store_true", help="on a GPU that fibers play")
    default = ROOT / "docs" / "results" / "gpu_suite"
    parser.add_argument("-o", "--output", type=Path, default=default, metavar="PATH")
    args = parser.parse_args()
    args.against = args.against or (("tvm",) if args.simulated else PEERS)
    return args


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


if __name__ == "__main__":
    sys.exit(main())
