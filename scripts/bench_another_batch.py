"""Kernels at another batch than that they were tuned at, decided by its log, beside their defaults.

    python scripts/bench_tuning.py --log own.db           # tunes kernels at their own batch
    python scripts/bench_another_batch.py --log own.db
    # writes docs/results/bench_another_batch.{json,md}

The kernels are those of bench_tuning with some times as many rows; each is timed beside its default
in some libraries of processes that took no part in a search.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import onnx
from bench_tuning import FRESH, LIBRARIES, PROCESSES, kernels
from git_state import described_commit
from idle_machine import require_idle

from tvm_stitch import targets
from tvm_stitch.build import Request
from tvm_stitch.profiling.stats import geometric_mean
from tvm_stitch.tuning.log import Log
from tvm_stitch.tuning.log.fingerprint import device_key
from tvm_stitch.tuning.measure.crew import Crew
from tvm_stitch.tuning.measure.subject import KernelSubject
from tvm_stitch.tuning.reuse import Reuse
from tvm_stitch.tuning.tasks import Task, Tasks, tasks_of

ROOT = Path(__file__).resolve().parents[1]
SLOWEST = 0.97  # of the default's time over that by the log


def main() -> int:
    """Return 1 if what a log of another batch decides makes a kernel slower."""
    args = _arguments()
    require_idle()
    record = {"command": " ".join(["python scripts/bench_another_batch.py", *sys.argv[1:]])}
    record |= {"commit": described_commit(), "mcpu": targets.machine().mcpu}
    record |= {"times": args.times, "rows": []}
    wanted = tuple(args.names.split(","))
    with Log.open(args.log) as log:
        for (name, tuned), (_, larger) in zip(kernels(), kernels(args.times), strict=True):
            if any(each in name for each in wanted):
                rows = [*_rows(name, tuned(), larger(), log, args)]
                record["rows"] += rows
                print(*map(_line, rows), sep="\n", flush=True)
                args.output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
                args.output.with_suffix(".md").write_text(_render(record))
    return int(any(row["gain"] < SLOWEST for row in record["rows"]))


def _rows(
    name: str, tuned: onnx.ModelProto, larger: onnx.ModelProto, log: Log, args: argparse.Namespace
) -> Iterator[dict]:
    """Yield a row for each kernel of the larger model."""
    own, found = (tasks_of(Request(model, threads=args.threads)) for model in (tuned, larger))
    reuse, key = Reuse(log, found.device), device_key(found.device).key
    known = {task.candidates.workload.structure: task.candidates.workload.key for task in own.tasks}
    for task in found.tasks:
        decided = reuse.decide(task.candidates)
        of = known.get(task.candidates.workload.structure)
        best = None if of is None else log.best(of, key)
        default_us, gain = _fresh(task, decided.decisions, found, args)
        yield {
            "name": name,
            "kernel": task.name,
            "how": decided.how,
            "default_us": default_us,
            "gain": 1.0 if decided.decisions == task.candidates.default else gain,
            "tuned_gain": 1.0 if best is None else max(1.0, best.default_ns / best.ns),
        }


def _fresh(
    task: Task, decisions: object, found: Tasks, args: argparse.Namespace
) -> tuple[float, float]:
    """Return what the default takes in us, and what decisions gain, the medians of libraries."""
    is_default = decisions == task.candidates.default
    outcomes = []
    for number in range(1 if is_default else PROCESSES):
        with Crew(found.target, args.threads, 1) as crew:
            crew.take(KernelSubject(task.candidates), args.seed + 1 + number)
            times = 1 if is_default else LIBRARIES
            outcomes += [crew.measure([decisions], FRESH)[0] for _ in range(times)]
    if wrong := [each.error for each in outcomes if each.ns is None]:
        raise RuntimeError(f"{task.name}: {wrong}")
    default_ns = median(each.default_ns for each in outcomes)
    return default_ns / 1e3, median(each.gain for each in outcomes)


def _line(row: dict) -> str:
    return (
        f"| {row['name']} | {row['default_us']:.2f} | {row['how']} | {row['gain']:.3f} | "
        f"{row['tuned_gain']:.3f} |"
    )


def _render(record: dict) -> str:
    rows = record["rows"]
    gains = geometric_mean([row["gain"] for row in rows])
    tuned = geometric_mean([row["tuned_gain"] for row in rows])
    share = f", {math.log(gains) / math.log(tuned):.2f} of it" if tuned > 1.0 else ""
    lines = [
        "# Kernels at another batch than they were tuned at",
        "",
        f"`{record['command']}` at {record['commit']}, {record['mcpu']}. {record['times']} times "
        "as many rows. Gain: the default's time over that of what the log of the own batch "
        f"decides, medians of {LIBRARIES} libraries in {PROCESSES} processes each; beside it what "
        f"tuning gained at the own batch, by the log. {gains:.3f} in the mean, tuned {tuned:.3f}"
        f"{share}; lowest {min(row['gain'] for row in rows):.3f}.",
        "",
        "| kernel | default us | how | gain | tuned at its own batch |",
        "|---|--:|---|--:|--:|",
        *map(_line, rows),
    ]
    return "\n".join([*lines, ""])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--log", required=True, metavar="LOG", help="of bench_tuning")
    parser.add_argument("--times", type=int, default=2, help="as many rows as were tuned")
    parser.add_argument("--names", default="", metavar="A,B", help="names that have this in them")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results/bench_another_batch")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
