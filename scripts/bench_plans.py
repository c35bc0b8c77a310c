"""Set plans side by side: the explorer's, the first planner's, stock FuseOps', one kernel an op.

    python scripts/bench_plans.py                 # docs/results/bench_plans.{json,md}
    python scripts/bench_plans.py --names traps   # or models, or names with commas

Only the planner differs: rewrites, schedules and threads are the same for all four. A run on a busy
machine is refused, and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import onnx
import zoo
from first_planner import MaximalPlanner
from git_state import described_commit
from interleaved import interleaved

import tvm_stitch
from relay_passes.fusion.stitch_ops import StitchOps
from tvm_stitch import pipeline
from tvm_stitch.runtime.model import Model

ROOT = Path(__file__).resolve().parents[1]
OURS, FIRST, STOCK, NONE = "explorer", "first planner", "FuseOps", "no fusion"
MOST_SPREAD, TRIES = 0.05, 3  # a row whose rounds lie further apart says nothing
_FUSION = {OURS: "stitch", FIRST: "stitch", STOCK: "tvm", NONE: "none"}


def main() -> str | None:
    """Return why the run was refused, None if it was not."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--names", default="traps,models", metavar="A,B")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8.0, help="to measure one model")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results/bench_plans")
    args = parser.parse_args()
    record = {"command": " ".join(["python scripts/bench_plans.py", *sys.argv[1:]])}
    record |= {"commit": described_commit(), "rows": []}
    for name, model in _chosen(args.names.split(",")):
        plans = _measured(model, args)
        if (reason := busy(plans)) is not None:
            return f"{name}: {reason}: the machine is busy, run it again when it is not"
        record["rows"].append({"name": name, "plans": plans})
        print(_row(record["rows"][-1]), flush=True)
    args.output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
    args.output.with_suffix(".md").write_text(_render(record))
    print(_summary(record))
    return None


def _chosen(names: list[str]) -> Iterator[tuple[str, onnx.ModelProto]]:
    for name in names:
        group = {"traps": list(zoo.TRAPS), "models": list(zoo.MODELS)}.get(name, [name])
        for each in group:
            yield each, zoo.TRAPS[each]() if each in zoo.TRAPS else zoo.model(each)


def _measured(model: onnx.ModelProto, args: argparse.Namespace) -> dict[str, dict]:
    built = {plan: _compiled(model, plan, args.threads) for plan in _FUSION}
    inputs, plans = zoo.random_inputs(model), {}
    for _ in range(TRIES):
        timed = interleaved(built, inputs, args.seconds)
        plans = {
            plan: {
                "kernels": built[plan].report.kernels,
                "bytes": built[plan].report.bytes_fused,
                "fallbacks": built[plan].report.fallbacks,
                "us": timed[plan].us,
                "spread": timed[plan].spread,
            }
            for plan in _FUSION
        }
        if busy(plans) is None:
            break
    return plans


def busy(plans: dict[str, dict]) -> str | None:
    """Return whose rounds lie too far apart to be told from each other."""
    plan = max((OURS, STOCK, NONE), key=lambda each: plans[each]["spread"])
    spread = plans[plan]["spread"]
    if spread <= MOST_SPREAD:
        return None
    return f"{plan} spreads by {spread:.1%}, at most {MOST_SPREAD:.0%}"


def _compiled(model: onnx.ModelProto, plan: str, threads: int) -> Model:
    def first(device, *_: object) -> StitchOps:
        return StitchOps(device, planner=MaximalPlanner(device))

    if plan != FIRST:
        return tvm_stitch.compile(model, threads=threads, fusion=_FUSION[plan])
    with mock.patch.object(pipeline, "StitchOps", first):
        return tvm_stitch.compile(model, threads=threads)


def slower(row: dict) -> bool:
    """Return whether ours is slower than not fusing, or fusing as stock TVM, beyond the spread."""
    plans = row["plans"]
    best = min((plans[STOCK], plans[NONE]), key=lambda plan: plan["us"])
    allowed = 1 + 2 * max(best["spread"], plans[OURS]["spread"]) + 0.02
    return plans[OURS]["us"] > allowed * best["us"]


def _row(row: dict) -> str:
    cells = [
        f"{p['kernels']} / {p['bytes'] / 1e6:.1f} / {p['fallbacks']} / {p['us']:.0f}"
        for p in (row["plans"][plan] for plan in _FUSION)
    ]
    ours = row["plans"][OURS]["us"]
    best = min(row["plans"][plan]["us"] for plan in (STOCK, NONE))
    verdict = "slower" if slower(row) else ""
    return f"| {row['name']} | {' | '.join(cells)} | {best / ours:.2f} | {verdict} |"


def _summary(record: dict) -> str:
    rows = record["rows"]
    worse = [row["name"] for row in rows if slower(row)]
    return f"{len(rows)} graphs; slower than the best of FuseOps and no fusion: {worse or 'none'}"


def _render(record: dict) -> str:
    head = ["# Plans side by side", "", f"`{record['command']}` at {record['commit']}.", ""]
    head += ["Kernels / MB of main-memory traffic as modelled / kernels on the fallback schedule"]
    head += ["/ us. The ratio is the better of FuseOps and no fusion over the explorer.", ""]
    head += [_summary(record), "", f"| graph | {' | '.join(_FUSION)} | ratio | |"]
    head += ["|---|" + "---|" * (len(_FUSION) + 2)]
    return "\n".join([*head, *map(_row, record["rows"]), ""])


if __name__ == "__main__":
    sys.exit(main())
