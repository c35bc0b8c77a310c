"""Kernels tuned from the figures of another CPU, beside the same tuned from this machine's own.

    python scripts/bench_tuning.py --log own.db             # tunes by this machine's profile
    python scripts/bench_foreign_profile.py --log own.db    # x86-64-v4's, then both in one run
    # writes docs/results/bench_foreign_profile.{json,md}

Both searches have the same number of trials, and their candidates are compiled for this machine:
only the figures of the cost model are another's. What they decided is timed side by side, in some
processes that took no part in either.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

import onnx
from bench_reuse import decided_by
from bench_stock_space import ScheduledSubject
from bench_tuning import FRESH, LIBRARIES, PROCESSES, kernels, tuned
from git_state import described_commit
from idle_machine import require_idle
from tvm import tirx
from tvm_ffi import structural_equal

from tir_schedules.device import CpuDevice
from tir_schedules.host import host_name
from tir_schedules.tuning.candidates import Candidates
from tvm_stitch import targets
from tvm_stitch.build import Request
from tvm_stitch.profiling.stats import geometric_mean
from tvm_stitch.tuning.log import Log
from tvm_stitch.tuning.log.fingerprint import device_key
from tvm_stitch.tuning.measure.crew import Crew
from tvm_stitch.tuning.measure.outcome import Outcome
from tvm_stitch.tuning.tasks import Task, Tasks, tasks_of

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ROOT / "tir_schedules/device/profile/defaults"
SLOWEST = 0.97  # of the own profile's time over the foreign one's


def main() -> int:
    """Return 1 if a kernel tuned from the foreign figures is slower."""
    args = _arguments()
    require_idle()
    record = {"command": " ".join(["python scripts/bench_foreign_profile.py", *sys.argv[1:]])}
    record |= {"commit": described_commit(), "mcpu": targets.machine().mcpu}
    record |= {"foreign": args.foreign, "rows": []}
    wanted = tuple(args.names.split(","))
    with Log.open(args.log) as log:
        for name, model in kernels():
            if any(each in name for each in wanted):
                rows = [*_rows(name, model(), log, args)]
                record["rows"] += rows
                print(*map(_line, rows), sep="\n", flush=True)
                args.output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
                args.output.with_suffix(".md").write_text(_render(record))
    apart = [row for row in record["rows"] if not row["is_same"]]
    return int(any(row["foreign_tuned"] < SLOWEST for row in apart))


def _rows(name: str, model: onnx.ModelProto, log: Log, args: argparse.Namespace) -> Iterator[dict]:
    """Yield a row for each kernel that both have."""
    own = tasks_of(Request(model, threads=args.threads))
    with tempfile.TemporaryDirectory() as folder, Log.open(f"{folder}/log", create=True) as other:
        profile = Path(folder) / "profile.json"
        profile.write_text(json.dumps(_as_ours(args.foreign, own.device)))
        foreign = tasks_of(Request(model, profile=profile, threads=args.threads))
        found = {each.task.name: each for each in tuned(foreign, other, args).tuners}
        trials = {name: _trials(other, each.task, foreign.device) for name, each in found.items()}
    key = device_key(own.device).key
    for task in own.tasks:
        made, tuner = task.candidates, found.get(task.name)
        if tuner is None:  # the other CPU's figures cut the model otherwise
            continue
        theirs = tuner.task.candidates
        pairs = {
            "tuned": (made, decided_by(log, made, key)),
            "foreign_default": (theirs, theirs.default),
            "foreign_tuned": (theirs, tuner.best),
        }
        funcs = {which: _emitted(*pair) for which, pair in pairs.items()}
        fresh = [run for n in range(PROCESSES) for run in _fresh(made, funcs, own, args, n)]
        if wrong := [each.error for run in fresh for each in run.values() if each.ns is None]:
            raise RuntimeError(f"{name}: {wrong}")
        yield {
            "name": name,
            "kernel": task.name,
            "trials": trials[task.name],
            "is_same": structural_equal(funcs["tuned"], funcs["foreign_tuned"]),
            "default_us": median(run["tuned"].default_ns for run in fresh) / 1e3,
            **{f"{which}_gain": median(run[which].gain for run in fresh) for which in funcs},
            "foreign_default": _over(fresh, "foreign_default"),
            "foreign_tuned": _over(fresh, "foreign_tuned"),
        }


def _trials(log: Log, task: Task, device: CpuDevice) -> int:
    return sum(1 for _ in log.trials(task.candidates.workload.key, device_key(device).key))


def _as_ours(foreign: str, device: CpuDevice) -> dict:
    """Return the shipped figures of a CPU as if they were of this machine."""
    figures = json.loads((SHIPPED / f"{foreign}.json").read_text())
    here = {"name": host_name(), "mcpu": device.mcpu, "vector_bytes": device.vector_bytes}
    return figures | {"device": here}


def _fresh(
    made: Candidates,
    funcs: Mapping[str, tirx.PrimFunc],
    own: Tasks,
    args: argparse.Namespace,
    number: int,
) -> list[dict[str, Outcome]]:
    """Return what kernels take in some libraries of a process that takes no part in a search."""
    distinct = [*dict.fromkeys(funcs.values())]
    with Crew(own.target, args.threads, 1) as crew:
        crew.take(ScheduledSubject(made), args.seed + 1 + number)
        runs = [crew.measure(_turned(distinct, shift), FRESH) for shift in range(LIBRARIES)]
    found = [{each.decisions: each for each in run} for run in runs]
    return [{which: run[func] for which, func in funcs.items()} for run in found]


def _turned(funcs: list[tirx.PrimFunc], shift: int) -> list[tirx.PrimFunc]:
    shift %= len(funcs)
    return funcs[shift:] + funcs[:shift]


def _over(fresh: Sequence[Mapping[str, Outcome]], which: str) -> float:
    """Return the gain of one of the foreign kernels over the gain of the own tuned one."""
    return median(run[which].gain / run["tuned"].gain for run in fresh)


def _emitted(made: Candidates, decisions: object) -> tirx.PrimFunc:
    return made.backend.emit(made.plan(decisions), made.func)


def _line(row: dict) -> str:
    return (
        f"| {row['name']} | {row['default_us']:.2f} | {row['tuned_gain']:.3f} | "
        f"{row['foreign_default_gain']:.3f} | {row['foreign_tuned_gain']:.3f} | "
        f"{row['foreign_tuned']:.3f}{' (same kernel)' if row['is_same'] else ''} |"
    )


def _render(record: dict) -> str:
    ratios = [row["foreign_tuned"] for row in record["rows"]]
    lines = [
        "# Kernels tuned from another CPU's figures",
        "",
        f"`{record['command']}` at {record['commit']}, {record['mcpu']}. Gains over the default by "
        f"this machine's profile: tuned by it, by the default of {record['foreign']}, and tuned "
        "from that. The ratio: what the kernel tuned by the own profile takes over what that tuned "
        f"by the other does, the medians of {LIBRARIES} libraries in {PROCESSES} processes each; "
        f"{geometric_mean(ratios):.3f} in the mean, lowest {min(ratios):.3f}.",
        "",
        "| kernel | default us | tuned | foreign default | foreign tuned | ratio |",
        "|---|--:|--:|--:|--:|--:|",
        *map(_line, record["rows"]),
    ]
    return "\n".join([*lines, ""])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--log", required=True, metavar="LOG", help="of bench_tuning")
    parser.add_argument("--foreign", default="x86-64-v4", metavar="CPU")
    parser.add_argument("--names", default="", metavar="A,B", help="names that have this in them")
    parser.add_argument("--trials", type=int, default=256, help="of a kernel, at most")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results/bench_foreign_profile")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
