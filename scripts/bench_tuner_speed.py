"""Candidates a second: our crew, and MetaSchedule's own builder and runner on the same kernels.

python scripts/bench_tuner_speed.py               # docs/results/bench_tuner_speed.{json,md}
python scripts/bench_tuner_speed.py --busy        # with another process on every CPU
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench_tuning import kernels
from git_state import described_commit
from idle_machine import require_idle
from tvm.ir import IRModule
from tvm.s_tir import meta_schedule as ms

from tvm_stitch import targets
from tvm_stitch.build import Request
from tvm_stitch.tuning.kernel_tuner import KernelTuner
from tvm_stitch.tuning.measure.crew import Crew
from tvm_stitch.tuning.measure.subject import KernelSubject
from tvm_stitch.tuning.model.gains import GainModel
from tvm_stitch.tuning.tasks import Task, Tasks, tasks_of

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("softmax cache", "residual_layernorm cache", "gru_cell cache", "product 128x768x768")
BATCH = 16
PATIENCE_S = 180.0  # a worker of MetaSchedule's imports for 20 s on an idle machine
SPIN = "while True: pass"


def main() -> int:
    """Return 1 if a candidate failed to be built."""
    args, rows, models = _arguments(), [], dict(kernels())
    require_idle()
    with _busy(args.threads if args.busy else 0):
        for name in NAMES:
            found = tasks_of(Request(models[name](), threads=args.threads))
            task = max(found.tasks, key=lambda each: len(each.candidates.space.variants))
            rows.append({"name": name, **_ours(task, found, args), **_stock(task, found, args)})
            print(json.dumps(rows[-1]), flush=True)
    record = {"command": " ".join(["python scripts/bench_tuner_speed.py", *sys.argv[1:]])}
    record |= {"commit": described_commit(), "mcpu": targets.machine().mcpu, "rows": rows}
    args.output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
    args.output.with_suffix(".md").write_text(_render(record))
    return int(any(row["failed"] for row in rows))


def _ours(task: Task, found: Tasks, args: argparse.Namespace) -> dict:
    """Search, build, check and time; the workers are started before, as a session does once."""
    tuner, count, failed = KernelTuner(task, found.target, GainModel(), 1, BATCH), 0, 0
    with Crew(found.target, args.threads, args.threads) as crew:
        crew.take(KernelSubject(task.candidates), 1)
        start = time.monotonic()
        while count < args.candidates and (batch := tuner.next()):
            outcomes = crew.measure(batch)
            tuner.hear(outcomes)
            count += len(outcomes)
            failed += sum(each.error is not None for each in outcomes)
        seconds = time.monotonic() - start
    default_us = tuner.default_ns / 1e3
    return {"default_us": default_us, "a_second": count / seconds, "failed": failed}


def _stock(task: Task, found: Tasks, args: argparse.Namespace) -> dict:
    """Build and time as many neighbours of the default by LocalBuilder and LocalRunner."""
    made = task.candidates
    plans = (made.plan(each) for each in made.neighbours(made.default))
    legal = [plan for plan in plans if not isinstance(plan, str)][: args.stock]
    funcs = [
        made.backend.emit(plan, made.func).with_attr("global_symbol", "main") for plan in legal
    ]
    builder = ms.builder.LocalBuilder(max_workers=args.threads, timeout_sec=PATIENCE_S)
    runner = ms.runner.LocalRunner(timeout_sec=PATIENCE_S)
    info = ms.arg_info.ArgInfo.from_prim_func(made.func)
    start = time.monotonic()
    inputs = [ms.builder.BuilderInput(IRModule({"main": f}), found.target) for f in funcs]
    built = builder.build(inputs)
    good = [each.artifact_path for each in built if each.artifact_path is not None]
    asked = [ms.runner.RunnerInput(path, "cpu", info) for path in good]
    results = [future.result() for future in runner.run(asked)]
    seconds = time.monotonic() - start
    ran = sum(each.run_secs is not None for each in results)
    return {"stock_a_second": ran / seconds, "stock_failed": len(funcs) - ran}


@contextlib.contextmanager
def _busy(count: int) -> Iterator[None]:
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(count)]
    try:
        yield
    finally:
        for each in spinning:
            each.kill()
            each.wait()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--candidates", type=int, default=96)
    parser.add_argument("--stock", type=int, default=16, help="candidates of MetaSchedule's own")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--busy", action="store_true", help="a spinning process on every CPU")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results/bench_tuner_speed")
    return parser.parse_args()


def _render(record: dict) -> str:
    lines = [
        "# Candidates a second",
        "",
        f"`{record['command']}` at {record['commit']}, {record['mcpu']}. Ours are searched for,",
        "built, checked and timed in turns with the default; MetaSchedule's LocalBuilder and",
        "LocalRunner build and time.",
        "",
        "| kernel | default us | ours a second | failed | stock a second | failed |",
        "|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        lines.append(
            f"| {row['name']} | {row['default_us']:.1f} | {row['a_second']:.1f} | {row['failed']} "
            f"| {row['stock_a_second']:.2f} | {row['stock_failed']} |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    raise SystemExit(main())
