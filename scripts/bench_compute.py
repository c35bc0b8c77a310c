"""Compute-intensive ops and subgraphs against peers: measured, judged and laid out.

What `bench_gemm.py`, `bench_conv.py` and `bench_coarse.py` share. Each peer in its own process,
interleaved; the peak is multiply-adds on registers in the same run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import zoo
from git_state import described_commit

from tvm_stitch import targets
from tvm_stitch.profiling.harness import Crew, compare
from tvm_stitch.profiling.peer import OURS, Job
from tvm_stitch.profiling.rounds import Pace
from tvm_stitch.profiling.stats import geometric_mean
from tvm_stitch.profiling.table import number

ROOT = Path(__file__).resolve().parents[1]
PEAK = "fma-peak"
PACE = Pace(rounds=9, turn_s=0.15, turn_runs=150)


@dataclass(frozen=True)
class Bars:
    """What is asked for: ratios to the best peer, and a share of the peak of large rows."""

    peers: tuple[str, ...] = ("onnxruntime", "openvino")
    best: float = 1.0
    row: float = 0.85
    share: float = 0.90
    large_flops: float = 5e8


@dataclass(frozen=True)
class Case:
    """One op: where it comes from, its sizes for the table, multiply-adds times two, its model."""

    name: str
    sizes: str
    flops: int
    model: Callable[[], onnx.ModelProto]


def run(
    script: str, title: str, description: str, cases: Sequence[Case], bars: Bars | None = None
) -> None:
    """Parse the command line, time the cases, write docs/results/`script`.{json,md}."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--names", default="", metavar="A,B", help="names that start so")
    parser.add_argument("--threads", default="1,2", metavar="1,2")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds a row may take")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results" / script)
    args = parser.parse_args()
    bars = bars or Bars()
    chosen = [case for case in cases if case.name.startswith(tuple(args.names.split(",")))]
    record = {"command": " ".join([f"python scripts/{script}.py", *sys.argv[1:]])}
    record |= {"commit": described_commit(), "mcpu": targets.machine().mcpu, "rows": []}
    for threads in map(int, args.threads.split(",")):
        with Crew(threads) as crew:
            for case in chosen:
                key = {"name": case.name, "sizes": case.sizes, "flops": case.flops}
                measured = _measured(crew, case, args.budget, bars.peers)
                if isinstance(measured, str):
                    print(f"{case.name} {case.sizes}: {measured}", file=sys.stderr)
                    continue
                record["rows"].append({**key, "threads": threads, **measured})
                print(_line(record["rows"][-1], bars), flush=True)
    args.output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
    args.output.with_suffix(".md").write_text(_render(title, record, bars))
    print(_summary(record["rows"], bars))


def _measured(crew: Crew, case: Case, budget: float, peers: Sequence[str]) -> dict | str:
    """Return the times of one op, or why it was not timed; a peer may be absent, not all."""
    path, model = crew.workdir / "op.onnx", case.model()
    onnx.save(model, path)
    job = Job(path, crew.workdir, crew.threads)
    rows = compare(crew, job, zoo.random_inputs(model), (OURS, PEAK, *peers), budget, pace=PACE)
    times = {row.peer: row.timing.median_us for row in rows if row.timing}
    absent = [row for row in rows if row.peer not in times]
    for row in absent:
        print(f"{case.name} {case.sizes}: {row.peer}: {row.reason}", file=sys.stderr)
    if {OURS, PEAK} & {row.peer for row in absent} or len(absent) == len(peers):
        return "not timed"
    (peak,) = (row for row in rows if row.peer == PEAK)
    apart = max((row.apart for row in rows if row.apart is not None), default=None)
    return {
        "us": times,
        "peak_gflops": peak.facts["flops"] / times[PEAK] / 1e3,
        "apart": apart,
    }


def ratio(row: dict) -> float:
    """Return the best peer's time over ours."""
    peers = (us for peer, us in row["us"].items() if peer not in (OURS, PEAK))
    return min(peers) / row["us"][OURS]


def _share(row: dict) -> float:
    """Return our share of the peak."""
    return row["flops"] / row["us"][OURS] / 1e3 / row["peak_gflops"]


def _summary(rows: list[dict], bars: Bars) -> str:
    ratios = [ratio(row) for row in rows]
    large = [_share(row) for row in rows if row["flops"] >= bars.large_flops]
    return "\n".join(
        (
            f"- geometric mean against the best peer of each row: {geometric_mean(ratios):.2f} "
            f"over {len(ratios)} rows (asked: {bars.best})",
            f"- rows under {bars.row}: {sum(r < bars.row for r in ratios)}",
            f"- rows of {bars.large_flops:.0e} FLOPs or more under {bars.share:.0%} of peak: "
            f"{sum(s < bars.share for s in large)} of {len(large)}",
        )
    )


def _line(row: dict, bars: Bars) -> str:
    known = row["us"]
    times = [number(known[peer]) if peer in known else "-" for peer in (OURS, *bars.peers)]
    gflops = row["flops"] / row["us"][OURS] / 1e3
    cells = [row["name"], row["sizes"], str(row["threads"]), *times, f"{ratio(row):.2f}"]
    return f"| {' | '.join(cells)} | {gflops:.0f} | {_share(row):.0%} |"


def _render(title: str, record: dict, bars: Bars) -> str:
    head = [f"# {title}", ""]
    head += [f"`{record['command']}` at {record['commit']}, {record['mcpu']}. Medians in us.", ""]
    head += [_summary(record["rows"], bars), ""]
    columns = " | ".join(bars.peers)
    head += [f"| op | sizes | threads | ours | {columns} | ratio | GFLOP/s | of peak |"]
    head += ["|---|---|" + "--:|" * (5 + len(bars.peers))]
    return "\n".join([*head, *(_line(row, bars) for row in record["rows"]), ""])
