"""Set the latency evaluator's times beside those that bench_memory.py measured.

    python scripts/bench_predicted.py [--profile FILE]      # docs/results/predicted.md

Nothing is measured or fitted here: the kernels are planned, their times read from
docs/results/bench_memory.json. The measured times hold the call from Python, 2 us.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from pathlib import Path
from unittest import mock

import zoo
from scipy.stats import spearmanr
from tvm import tirx

from tir_schedules import apply
from tir_schedules.cpu.cost.latency import Latency, estimate
from tir_schedules.cpu.plan.kernel_plan import Plan
from tir_schedules.default_plan import plan_prim_func
from tir_schedules.device import CpuDevice
from tir_schedules.device.profile import Profile, load_profile
from tvm_stitch import pipeline, targets
from tvm_stitch.frontend import import_model
from tvm_stitch.profiling.peer import OURS

RESULTS = Path(__file__).resolve().parents[1] / "docs/results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--profile", type=Path, help="default: the one shipped for this machine")
    args = parser.parse_args()
    device = CpuDevice.detect(targets.resolve("x86"))
    profile = load_profile(args.profile) if args.profile else device.profile
    record = json.loads((RESULTS / "bench_memory.json").read_text())
    rows = [r for row in record["rows"] if (r := _row(row, profile)) is not None]
    (RESULTS / "predicted.md").write_text(_render(rows, record["commit"], profile))
    print(_summary(rows))


def _row(row: dict, profile: Profile) -> tuple[str, float, Latency] | None:
    """Return a row's name, measured us and predicted time, None if it was not measured."""
    timing = next((p["timing"] for p in row["peers"] if p["peer"] == OURS), None)
    if timing is None:
        return None
    target = targets.resolve("x86", row["threads"])
    (plan,) = _plans(zoo.subgraph(row["name"], row["shape"]), target, row["threads"])
    predicted = estimate(plan, CpuDevice.detect(target, row["threads"], profile))
    name = f"{row['name']} {'x'.join(map(str, row['shape']))}, {row['threads']} threads"
    return name, timing["median_us"], predicted


def _plans(model: object, target: object, threads: int) -> list[Plan]:
    plans = []

    def keep(func: tirx.PrimFunc, device: CpuDevice) -> Plan | str:
        plans.append(plan_prim_func(func, device))
        return plans[-1]

    with mock.patch.object(apply, "plan_prim_func", keep):
        imported = import_model(model, None)
        pipeline.lower(imported.mod, target, fusion="stitch", threads=threads)
    return plans


def _summary(rows: list[tuple[str, float, Latency]]) -> str:
    measured = [us for _, us, _ in rows]
    predicted = [latency.total / 1e3 for _, _, latency in rows]
    rank = spearmanr(measured, predicted).statistic
    logs = [math.log(p / m) for p, m in zip(predicted, measured, strict=True)]
    middle, spread = math.exp(statistics.mean(logs)), math.exp(statistics.pstdev(logs))
    return (
        f"{len(rows)} kernels: Spearman {rank:.2f}; predicted over measured {middle:.2f} "
        f"(geometric mean), times or over {spread:.2f} (one standard deviation)"
    )


def _render(rows: list[tuple[str, float, Latency]], commit: str, profile: Profile) -> str:
    lines = [
        "# Predicted and measured times of the memory-intensive subgraphs",
        "",
        f"`python scripts/bench_predicted.py`: `tir_schedules.cpu.cost.latency` with the profile "
        f"of {profile.name} ({profile.mcpu}), measured times of docs/results/bench_memory.json "
        f"({commit}). In us.",
        "",
        _summary(rows),
        "",
        "| kernel | measured | predicted | ratio | arithmetic | traffic |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, us, latency in rows:
        total, compute, traffic = (
            ns / 1e3 for ns in (latency.total, latency.compute, latency.traffic)
        )
        lines.append(
            f"| {name} | {us:.1f} | {total:.1f} | {total / us:.2f} | {compute:.1f} | "
            f"{traffic:.1f} |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
