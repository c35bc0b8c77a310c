"""Set what fusing a group is predicted to gain beside what it gains.

    python scripts/bench_fusion_gain.py --draw     # docs/results/fusion_gain_groups.json, seeded
    python scripts/bench_fusion_gain.py            # docs/results/bench_fusion_gain.{json,md}

Each group is a subgraph of the zoo at a drawn shape and thread count, as one kernel and as one
kernel an op. Nothing is fitted to the groups: the times are the latency-evaluator's.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import zoo
from interleaved import interleaved
from scipy.stats import spearmanr

import tvm_stitch
from relay_passes.cost.fusion_units import FusionUnits
from relay_passes.cost.group_cost import ExactJudge
from relay_passes.fusion.stitch_ops import StitchOps
from relay_passes.graph.fusion_plan import FusionPlan, execution_order
from relay_passes.graph.group import Group
from relay_passes.graph.op_graph import OpGraph
from relay_passes.policy import POLICY
from tir_schedules.device import CpuDevice
from tvm_stitch import pipeline

RESULTS = Path(__file__).resolve().parents[1] / "docs/results"
GROUPS = RESULTS / "fusion_gain_groups.json"
SEED, PER_NAME, MOST = 5, 5, 1 << 23
LARGE_CHANGE = 0.1


@dataclass(frozen=True)
class Predicted:
    """Times in us of one kernel and of a kernel an op; `reason` if one kernel is refused."""

    together: float
    apart: float
    reason: str | None


class _Whole:
    """A planner that makes one kernel of all that may be one, and notes what was predicted."""

    def __init__(self, device: CpuDevice) -> None:
        self._device = device
        self.predicted: Predicted | None = None

    def plan(self, graph: OpGraph) -> FusionPlan:
        units = FusionUnits([Group([n]) for n in graph.nodes])
        judge = ExactJudge(units, self._device, {})
        able = frozenset(n for n, unit in enumerate(units.units) if unit.refusal is None)
        reason, together = judge.judge(able)
        apart = sum(judge.judge(frozenset((n,)))[1] for n in able)
        self.predicted = Predicted(together / 1e3, apart / 1e3, reason)
        groups = [u.group for n, u in enumerate(units.units) if n not in able]
        ordered = execution_order([*groups, units.union(able)])
        return FusionPlan(graph, ordered, len(able) - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draw", action="store_true", help="write the list of groups")
    parser.add_argument("--profile", type=Path, help="default: the one shipped for this machine")
    parser.add_argument("--seconds", type=float, default=2.0, help="to measure one group")
    args = parser.parse_args()
    if args.draw:
        GROUPS.write_text(json.dumps(_drawn(), indent=1) + "\n")
        return
    rows = []
    for group in json.loads(GROUPS.read_text()):
        row = _measured(group, args)
        if row is None:
            continue
        rows.append(row)
        print(_line(row), flush=True)
    (RESULTS / "bench_fusion_gain.json").write_text(json.dumps(rows, indent=1) + "\n")
    (RESULTS / "bench_fusion_gain.md").write_text(_render(rows))
    print("\n".join(_summary(rows)))


def _drawn() -> list[dict]:
    """Return subgraphs at shapes from a few KiB to 32 MiB, thread counts in turn."""
    rng, out = random.Random(SEED), []
    for name in zoo.SUBGRAPHS:
        base, found = zoo.bench_shapes(name)["cache"], set()
        while len(found) < PER_NAME:
            rows = max(
                1, base[0] * rng.choice((1, 2, 3, 4, 8, 17, 32, 64, 129)) // rng.choice((1, 4))
            )
            rows = min(rows, max(1, MOST // math.prod(base[1:])))
            found.add((rows, *base[1:]))
        shapes = sorted(found)
        out += [
            {"name": name, "shape": shape, "threads": 1 + number % 2}
            for number, shape in enumerate(shapes)
        ]
    return out


def _measured(group: dict, args: argparse.Namespace) -> dict | None:
    model = zoo.subgraph(group["name"], tuple(group["shape"]))
    options = {"threads": group["threads"], "profile": args.profile}
    planners: list[_Whole] = []

    def whole(device: CpuDevice, *_: object) -> StitchOps:
        planners.append(_Whole(device))
        return StitchOps(device, planner=planners[-1])

    with mock.patch.object(pipeline, "StitchOps", whole):
        together = tvm_stitch.compile(model, **options)
    predicted = planners[0].predicted
    if predicted is None or predicted.reason is not None:
        return None
    apart = tvm_stitch.compile(model, fusion="none", **options)
    if apart.report.kernels == together.report.kernels:
        return None  # one op: nothing to gain, trivially
    timed = interleaved(
        {"together": together, "apart": apart}, zoo.random_inputs(model), args.seconds
    )
    return {
        **group,
        "kernels": apart.report.kernels,
        "measured_us": [timed["together"].us, timed["apart"].us],
        "predicted_us": [predicted.together, predicted.apart],
    }


def _ratios(row: dict) -> tuple[float, float]:
    """Return how many times faster one kernel is, measured and predicted."""
    return tuple(row[key][1] / row[key][0] for key in ("measured_us", "predicted_us"))


def _summary(rows: list[dict]) -> list[str]:
    halves = {"all": rows, "even": rows[::2], "odd": rows[1::2]}
    lines = []
    for name, half in halves.items():
        pairs = [_ratios(row) for row in half]
        gains = [[row[k][1] - row[k][0] for row in half] for k in ("measured_us", "predicted_us")]
        large = [(m, p) for m, p in pairs if abs(m - 1) > LARGE_CHANGE]
        signs = sum((m > 1) == (p > 1) for m, p in large)
        kept = sum((m > 1) == (p > POLICY.fusion.doubt) for m, p in large)
        lines.append(
            f"- {name}: {len(half)} groups; Spearman of the gain in us "
            f"{spearmanr(*gains).statistic:.2f}, of the ratio "
            f"{spearmanr(*zip(*pairs, strict=True)).statistic:.2f}; of {len(large)} that change by "
            f"over 10 %, sign right in {signs}, taken apart or kept rightly {kept}"
        )
    return lines


def _line(row: dict) -> str:
    measured, predicted = _ratios(row)
    shape = "x".join(map(str, row["shape"]))
    times = " | ".join(f"{us:.1f}" for us in (*row["measured_us"], *row["predicted_us"]))
    name = f"{row['name']} {shape}, {row['threads']} threads, {row['kernels']} ops"
    return f"| {name} | {times} | {measured:.2f} | {predicted:.2f} |"


def _render(rows: list[dict]) -> str:
    head = ["# Predicted and measured gain of fusing", "", "`python scripts/bench_fusion_gain.py`,"]
    head += ["groups of docs/results/fusion_gain_groups.json (`--draw`, seeded). Times in us.", ""]
    head += [*_summary(rows), ""]
    head += ["| group | one kernel | apart | predicted | apart | gain | predicted |"]
    head += ["|---|--:|--:|--:|--:|--:|--:|"]
    return "\n".join([*head, *map(_line, rows), ""])


if __name__ == "__main__":
    main()
