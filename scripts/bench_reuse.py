"""What a log gives kernels that were not tuned: of other models, and of another batch.

    python scripts/bench_tuned_models.py --log models.db     # tunes the zoo into it
    python scripts/bench_reuse.py --log models.db            # docs/results/bench_reuse.{json,md}

`left out`: of each model the log without its kernels and without all of their structure decides, so
that nothing but the model of gains tells. `batch`: the kernels of another batch are decided by the
whole log. What it decides otherwise than the default is timed beside it, and beside what was tuned,
in a process that took no part in the search, in some libraries; what it leaves counts as 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import zoo
from bench_compile import MODELS
from bench_tuning import FRESH, LIBRARIES
from git_state import described_commit
from idle_machine import require_idle

from tir_schedules.tuning.candidates import Candidates
from tvm_stitch import targets
from tvm_stitch.build import Request
from tvm_stitch.tuning.log import Log
from tvm_stitch.tuning.log.fingerprint import device_key
from tvm_stitch.tuning.measure.crew import Crew
from tvm_stitch.tuning.measure.subject import KernelSubject
from tvm_stitch.tuning.records import decisions_of
from tvm_stitch.tuning.reuse import Reuse
from tvm_stitch.tuning.tasks import Task, Tasks, tasks_of

ROOT = Path(__file__).resolve().parents[1]
SLOWEST = 0.97  # of the default's time over the learnt one
BATCH = 4


def main() -> int:
    """Return 1 if decisions that were not tuned make a kernel slower."""
    args = _arguments()
    require_idle()
    record = {"command": " ".join(["python scripts/bench_reuse.py", *sys.argv[1:]])}
    record |= {"commit": described_commit(), "mcpu": targets.machine().mcpu, "rows": []}
    with Log.open(args.log) as log:
        for name in args.names:
            for how, options in (("left out", {}), ("batch", {"batch": BATCH})):
                found = tasks_of(Request(zoo.model(name, **options), threads=args.threads))
                record["rows"] += _rows(name, how, found, log, args)
                args.output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
                print(_summary(name, how, record["rows"]), flush=True)
    args.output.with_suffix(".md").write_text(render(record))
    return int(any(row["gain"] < SLOWEST for row in record["rows"]))


def _rows(name: str, how: str, found: Tasks, log: Log, args: argparse.Namespace) -> Iterator[dict]:
    """Yield a row for each kernel of a model."""
    with tempfile.TemporaryDirectory() as folder:
        others = log if how == "batch" else _without(log, found, Path(folder, "others.db"))
        reuse, here = Reuse(others, found.device), device_key(found.device)
        with Crew(found.target, args.threads, 1) as crew:
            for task in found.tasks:
                decided = reuse.decide(task.candidates)
                tuned = decided_by(log, task.candidates, here.key)
                subject = KernelSubject(task.candidates, task.weights, task.weight_bytes)
                crew.take(subject, args.seed)
                default_ns, gains = _fresh(task, (decided.decisions, tuned), crew)
                yield {
                    "model": name,
                    "log": how,
                    "kernel": task.name,
                    "calls": task.calls,
                    "how": decided.how,
                    "default_us": default_ns / 1e3,
                    "gain": gains[decided.decisions],
                    "tuned_gain": gains[tuned],
                }


def _fresh(task: Task, wanted: Sequence[Any], crew: Crew) -> tuple[float, dict[Any, float]]:
    """Return what the default takes and what decisions gain, the median of some libraries."""
    default = task.candidates.default
    others = [each for each in dict.fromkeys(wanted) if each != default]
    runs = [crew.measure(others or [default], FRESH) for _ in range(LIBRARIES if others else 1)]
    gains = {each: median(run[at].gain for run in runs) for at, each in enumerate(others)}
    return runs[0][0].default_ns, {default: 1.0} | gains


def _without(log: Log, found: Tasks, path: Path) -> Log:
    """Return a log that knows no kernel of a model's structures."""
    own = {task.candidates.workload.structure for task in found.tasks}
    left = Log.open(path, create=True)
    kept = [each for each in log.workloads() if each.structure not in own]
    keys = {each.key for each in kept}
    trials = [each for each in log.trials() if each.workload in keys]
    left.append(kept, log.devices(), trials)
    return left


def decided_by(log: Log, candidates: Candidates, device: str) -> object:
    """Return the best decisions that the log has of a kernel, else the default."""
    found = log.best(candidates.workload.key, device)
    decisions = None if found is None else decisions_of(candidates, found)
    return candidates.default if decisions is None else decisions


def _saved(rows: list[dict], gain: str) -> float:
    """Return what of the default's time is saved in one run of the model."""
    total = sum(row["calls"] * row["default_us"] for row in rows)
    return sum(row["calls"] * row["default_us"] * (1 - 1 / row[gain]) for row in rows) / total


def _summary(name: str, how: str, rows: list[dict]) -> str:
    mine = [row for row in rows if (row["model"], row["log"]) == (name, how)]
    own, tuned = _saved(mine, "gain"), _saved(mine, "tuned_gain")
    share = f"{own / tuned:.2f}" if tuned > 0.001 else "-"
    least = min(row["gain"] for row in mine)
    changed = sum(row["how"] in ("near", "learnt") for row in mine)
    return (
        f"| {name} | {how} | {len(mine)} | {changed} | {own:.3f} | {tuned:.3f} | {share} | "
        f"{least:.3f} |"
    )


def render(record: dict) -> str:
    """Return the record as Markdown."""
    pairs = dict.fromkeys((row["model"], row["log"]) for row in record["rows"])
    lines = [
        "# Kernels that were not tuned, by a log of others",
        "",
        f"`{record['command']}` at {record['commit']}, {record['mcpu']}. Parts of the default's "
        "time saved in all kernels of a model, by decisions of the log and by the model's own.",
        "",
        "| model | log | kernels | decided by it | saved | tuned saves | share | lowest |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
        *(_summary(name, how, record["rows"]) for name, how in pairs),
    ]
    return "\n".join(lines) + "\n"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--log", required=True, metavar="LOG", help="of the zoo, tuned")
    parser.add_argument("--names", type=_listed, default=list(MODELS), metavar="A,B")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results/bench_reuse")
    return parser.parse_args()


def _listed(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    raise SystemExit(main())
