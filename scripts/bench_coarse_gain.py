"""Time attention and MLP blocks with products in one kernel and with each in its own.

    python scripts/bench_coarse_gain.py                 # docs/results/bench_coarse_gain.{json,md}
    python scripts/bench_coarse_gain.py --names mha_1

Off, no two products are joined (oneDNN Graph Compiler, arXiv 2301.01333, section 5); every other
fusion stays, a softmax in the kernel of its scores too. Plain, a product has its element-wise
epilogue alone. All are timed in turns in one process.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from unittest import mock

import onnx
import zoo
from bench_coarse import cases
from bench_compute import ROOT, Case
from git_state import described_commit
from interleaved import interleaved

import tvm_stitch
from relay_passes.fusion import planner as stitch_planner
from tvm_stitch import targets
from tvm_stitch.profiling.stats import geometric_mean
from tvm_stitch.profiling.table import number

ASKED = 1.2
# What stands for parts of the planner, by variant.
VARIANTS = {
    "on": {"chains": stitch_planner.chains},
    "off": {"chains": lambda _graph: ()},
    "plain": {"join_best": lambda *_: None},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--names", default="mha", metavar="A,B", help="names that start so")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=6.0, help="to measure one row")
    output = ROOT / "docs/results/bench_coarse_gain"
    parser.add_argument("--output", type=Path, default=output)
    args = parser.parse_args()
    record = {"command": " ".join(["python scripts/bench_coarse_gain.py", *sys.argv[1:]])}
    record |= {"commit": described_commit(), "mcpu": targets.machine().mcpu, "rows": []}
    for case in cases():
        if case.name.startswith(tuple(args.names.split(","))):
            record["rows"].append(_measured(case, args))
            print(_line(record["rows"][-1]), flush=True)
    args.output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
    args.output.with_suffix(".md").write_text(_render(record))
    print(_summary(record["rows"]))


def _measured(case: Case, args: argparse.Namespace) -> dict:
    """Return kernels, the medians of a call in us and their spread, by variant."""
    model = case.model()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "op.onnx"
        onnx.save(model, path)
        made = {}
        for variant, parts in VARIANTS.items():
            with mock.patch.multiple(stitch_planner, **parts):
                made[variant] = tvm_stitch.compile(path, threads=args.threads)
    timed = interleaved(made, zoo.random_inputs(model), args.seconds)
    return {
        "name": f"{case.name} {case.sizes}",
        "kernels": {key: each.report.kernels for key, each in made.items()},
        "us": {key: each.us for key, each in timed.items()},
        "spread": {key: each.spread for key, each in timed.items()},
    }


def _gain(row: dict, variant: str) -> float:
    return row["us"][variant] / row["us"]["on"]


def _summary(rows: list[dict]) -> str:
    lines = []
    for variant in ("off", "plain"):
        gains = [_gain(row, variant) for row in rows]
        under = sum(g < ASKED for g in gains)
        lines.append(
            f"- {variant} over on: geometric mean {geometric_mean(gains):.2f} over {len(gains)} "
            f"rows (asked: {ASKED}), lowest {min(gains):.2f}, {under} under {ASKED}"
        )
    return "\n".join(lines)


def _line(row: dict) -> str:
    cells = [row["name"]]
    for key in VARIANTS:
        spread = f"± {row['spread'][key]:.0%}"
        cells += [str(row["kernels"][key]), f"{number(row['us'][key])} {spread}"]
    cells += [f"{_gain(row, variant):.2f}" for variant in ("off", "plain")]
    return f"| {' | '.join(cells)} |"


def _render(record: dict) -> str:
    head = ["# Products in one kernel and apart, f32", "", f"`{record['command']}` at"]
    head += [f"{record['commit']}, {record['mcpu']}. Medians in us and the rounds' deviation.", ""]
    head += [_summary(record["rows"]), ""]
    columns = " | ".join(f"kernels | {key}" for key in VARIANTS)
    head += [f"| block | {columns} | off / on | plain / on |", "|---|" + "--:|" * 8]
    return "\n".join([*head, *map(_line, record["rows"]), ""])


if __name__ == "__main__":
    main()
