"""Our space after 64 trials beside MetaSchedule's own after 512, built and timed alike.

    python scripts/bench_stock_space.py      # docs/results/bench_stock_space.{json,md}

MetaSchedule's rules for CPUs search the same PrimFunc with its own XGBoost model; its candidates
are built, checked and timed by our workers in the place of its LocalBuilder and LocalRunner. The
best of both are timed side by side in a process that took no part in either search.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import tvm
from bench_tuning import FRESH, kernels
from git_state import described_commit
from idle_machine import require_idle
from tvm import tirx
from tvm.ir import IRModule
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from tir_schedules.tuning.candidates import Candidates
from tvm_stitch import targets
from tvm_stitch.build import Request
from tvm_stitch.profiling.stats import geometric_mean
from tvm_stitch.tuning.kernel_tuner import KernelTuner
from tvm_stitch.tuning.measure.crew import Crew
from tvm_stitch.tuning.measure.subject import KernelSubject
from tvm_stitch.tuning.model.gains import GainModel
from tvm_stitch.tuning.policy import POLICY
from tvm_stitch.tuning.tasks import Task, Tasks, tasks_of

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("layernorm cache", "softmax cache", "product 256x256x256", "convolution")
BATCH = 16  # of MetaSchedule


class ScheduledSubject(KernelSubject):
    """A kernel whose candidates are scheduled PrimFuncs, whoever scheduled them."""

    kind = "function"

    def __init__(self, made: Candidates) -> None:
        super().__init__(made)
        self.default = made.backend.emit(made.plan(made.default), made.func)

    def text(self, candidate: tirx.PrimFunc) -> str:
        return tvm.ir.save_json(candidate)


@derived_object
class Kept(ms.builder.PyBuilder):
    """Keeps each candidate as IR: what is built is built where it is timed."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder, self._count = folder, 0

    def build(self, build_inputs: list[ms.builder.BuilderInput]) -> list[ms.builder.BuilderResult]:
        made = []
        for each in build_inputs:
            self._count += 1
            path = self._folder / str(self._count) / "ir.json"  # its folder is removed with it
            path.parent.mkdir()
            path.write_text(tvm.ir.save_json(each.mod))
            made.append(ms.builder.BuilderResult(str(path), None))
        return made


@derived_object
class Crewed(ms.runner.PyRunner):
    """Measures what Kept has kept by a crew, and keeps the best."""

    def __init__(self, crew: Crew) -> None:
        super().__init__()
        self._crew = crew
        self.best, self.gain, self.count, self.failed = None, 0.0, 0, 0

    def run(self, runner_inputs: list[ms.runner.RunnerInput]) -> list[ms.runner.RunnerFuture]:
        texts = [Path(each.artifact_path).read_text() for each in runner_inputs]
        funcs = [_only(tvm.ir.load_json(text)) for text in texts]
        futures = []
        for outcome in self._crew.measure(funcs):
            self.count += 1
            self.failed += outcome.ns is None
            if outcome.gain > self.gain:
                self.best, self.gain = outcome.decisions, outcome.gain
            futures.append(_future(None if outcome.ns is None else outcome.ns / 1e9, outcome.error))
        return futures


def _only(mod: IRModule) -> tirx.PrimFunc:
    (func,) = mod.functions.values()
    return func


def _future(seconds: float | None, error: str | None) -> ms.runner.RunnerFuture:
    result = ms.runner.RunnerResult(None if seconds is None else [seconds], error)
    return ms.runner.RunnerFuture(lambda: True, lambda: result)


def main() -> int:
    """Return 1 if MetaSchedule's best is faster than ours."""
    args, models = _arguments(), kernels()
    require_idle()
    rows = []
    for name, model in models:
        if name in args.names or name.split()[0] in args.names:
            args.names.remove(name if name in args.names else name.split()[0])
            found = tasks_of(Request(model(), threads=args.threads))
            task = max(found.tasks, key=lambda each: each.candidates.kernel.stages[0].domain)
            rows.append({"name": name, **_row(task, found, args)})
            print(json.dumps(rows[-1]), flush=True)
    record = {"command": " ".join(["python scripts/bench_stock_space.py", *sys.argv[1:]])}
    record |= {"commit": described_commit(), "mcpu": targets.machine().mcpu, "rows": rows}
    args.output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
    args.output.with_suffix(".md").write_text(_render(record))
    return int(any(row["ours_over_stock"] < 1.0 for row in rows))


def _row(task: Task, found: Tasks, args: argparse.Namespace) -> dict:
    made = task.candidates
    start = time.monotonic()
    with Crew(found.target, args.threads, args.threads) as crew:
        crew.take(KernelSubject(made), args.seed)
        tuner = KernelTuner(task, found.target, GainModel(), args.seed, POLICY.session.batch)
        count = 0
        while count < args.ours and (batch := tuner.next()[: args.ours - count]):
            tuner.hear(crew.measure(batch))
            count += len(batch)
    ours_s, start = time.monotonic() - start, time.monotonic()
    ours = made.backend.emit(made.plan(tuner.best), made.func)
    subject = ScheduledSubject(made)
    with (
        Crew(found.target, args.threads, args.threads) as crew,
        tempfile.TemporaryDirectory() as folder,
    ):
        crew.take(subject, args.seed)
        runner = Crewed(crew)
        ms.tune_tir(
            IRModule({"main": made.func.with_attr("global_symbol", "main")}),
            found.target,
            folder,
            max_trials_global=args.stock,
            num_trials_per_iter=BATCH,
            builder=Kept(Path(folder)),
            runner=runner,
            seed=args.seed,
        )
    stock_s = time.monotonic() - start
    with Crew(found.target, args.threads, 1) as crew:
        crew.take(subject, args.seed + 1)
        mine, theirs = crew.measure([ours, runner.best or subject.default], FRESH)
    return {
        "default_us": mine.default_ns / 1e3,
        "ours_us": mine.ns / 1e3,
        "stock_us": theirs.ns / 1e3,
        "ours_over_stock": theirs.ns / mine.ns,
        "ours_trials": count,
        "stock_trials": runner.count,
        "stock_failed": runner.failed,
        "ours_s": ours_s,
        "stock_s": stock_s,
    }


def _render(record: dict) -> str:
    ratios = [row["ours_over_stock"] for row in record["rows"]]
    lines = [
        "# Our space beside MetaSchedule's",
        "",
        f"`{record['command']}` at {record['commit']}, {record['mcpu']}. The ratio is the best of "
        f"MetaSchedule's space over the best of ours: {geometric_mean(ratios):.2f} in the mean.",
        "",
        "| kernel | default us | ours us | trials | seconds | stock us | trials | failed | seconds "
        "| ratio |",
        "|---|" + "--:|" * 9,
    ]
    for row in record["rows"]:
        lines.append(
            f"| {row['name']} | {row['default_us']:.2f} | {row['ours_us']:.2f} | "
            f"{row['ours_trials']} | {row['ours_s']:.0f} | {row['stock_us']:.2f} | "
            f"{row['stock_trials']} | {row['stock_failed']} | {row['stock_s']:.0f} | "
            f"{row['ours_over_stock']:.2f} |"
        )
    return "\n".join([*lines, ""])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--names", type=_listed, default=list(NAMES), metavar="A,B")
    parser.add_argument("--ours", type=int, default=64, metavar="N", help="trials in our space")
    parser.add_argument("--stock", type=int, default=512, metavar="N", help="in MetaSchedule's")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results/bench_stock_space")
    return parser.parse_args()


def _listed(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    raise SystemExit(main())
