"""Time the whole models of the zoo against their peers, all peers of a model in one run.

    python scripts/bench_models.py                 # docs/results/bench_models.{json,md}
    python scripts/bench_models.py --names bert,gpt2 --budget 300

A peer that is not ready in 70 % of a model's budget is left out, with that as its reason.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import onnx
import zoo
from bench_compile import MODELS
from git_state import described_commit

from tvm_stitch import targets
from tvm_stitch.profiling.harness import Crew, compare
from tvm_stitch.profiling.peer import AGAINST, LOWER_PRECISION, OURS, Job
from tvm_stitch.profiling.rounds import Pace
from tvm_stitch.profiling.stats import geometric_mean

ROOT = Path(__file__).resolve().parents[1]
PEERS = ("onnxruntime", "openvino", "inductor", "inductor-max-autotune")
PACE = Pace(rounds=15, turn_s=0.25, turn_runs=150)


def main() -> None:
    args = arguments(__doc__.partition("\n")[0], MODELS, PEERS, 400.0, "bench_models")
    race("bench_models", "Whole models against their peers", args, _measured)


def race(
    bench: str,
    title: str,
    args: argparse.Namespace,
    measured: Callable[[Crew, str, list[str], argparse.Namespace], list[dict]],
) -> None:
    """Write the record and the table of a bench, a row for each name that is `measured`."""
    machine = targets.machine()
    record = {"command": " ".join([f"python scripts/{bench}.py", *sys.argv[1:]])}
    record |= {"commit": described_commit(), "mcpu": machine.mcpu, "threads": args.threads}
    record |= {"load_before": os.getloadavg()[0], "rows": []}
    peers = [row for name in args.against for row in AGAINST[name]]
    with Crew(args.threads) as crew:
        for name in args.names:
            row = {"name": name, "peers": measured(crew, name, peers, args)}
            if row["peers"][0]["timing"] is None:
                sys.exit(f"{name}: {row['peers'][0]['reason']}")
            record["rows"].append(row)
            args.output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
            print(" ".join(_cells(row, peers)), flush=True)
    args.output.with_suffix(".md").write_text(f"# {title}\n\n{table(record)}")


def _measured(crew: Crew, name: str, peers: list[str], args: argparse.Namespace) -> list[dict]:
    model, path = zoo.model(name), crew.workdir / f"{name}.onnx"
    onnx.save(model, path)
    job = Job(path, crew.workdir, crew.threads)
    inputs = zoo.random_inputs(model)
    rows = compare(crew, job, inputs, [OURS, *peers], args.budget, pace=PACE)
    path.unlink()
    return [row.to_json() for row in rows]


def table(record: dict) -> str:
    """Return the record as Markdown: milliseconds, and the best peer's time over ours."""
    peers = [peer["peer"] for peer in record["rows"][0]["peers"] if peer["peer"] != OURS]
    ratios = [ratio(row) for row in record["rows"]]
    lines = [
        f"`{record['command']}` at {record['commit']}, {record['mcpu']}, {record['threads']} "
        "threads, batch 1, float32, milliseconds. The ratio is the best peer's time over ours: "
        f"{geometric_mean(ratios):.2f} in the mean, lowest {min(ratios):.2f}. "
        "`openvino-default` computes in bf16 where the CPU has matrix units for it: it is shown, "
        "and not compared.",
        "",
        f"| model | kernels | ours | {' | '.join(peers)} | best / ours |",
        "|---|" + "--:|" * (len(peers) + 3),
        *(f"| {' | '.join(_cells(row, peers))} |" for row in record["rows"]),
    ]
    return "\n".join(lines) + "\n"


def _medians(row: dict) -> dict[str, float]:
    return {p["peer"]: p["timing"]["median_us"] for p in row["peers"] if p["timing"]}


def ratio(row: dict) -> float:
    """Return the best peer's time over ours; those of lower precision do not count."""
    medians = _medians(row)
    raced = (us for peer, us in medians.items() if peer not in (OURS, *LOWER_PRECISION))
    return min(raced) / medians[OURS]


def _cells(row: dict, peers: list[str]) -> list[str]:
    medians = _medians(row)
    times = [f"{medians[peer] / 1e3:.2f}" if peer in medians else "-" for peer in (OURS, *peers)]
    kernels = next(p["facts"]["kernels"] for p in row["peers"] if p["peer"] == OURS)
    return [row["name"], str(kernels), *times, f"{ratio(row):.2f}"]


def arguments(
    description: str, names: Iterable[str], peers: Iterable[str], budget: float, output: str
) -> argparse.Namespace:
    """Read the command line of a bench of models, of which these are the defaults."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--names", type=_listed, default=[*names], metavar="A,B")
    parser.add_argument("--against", type=_listed, default=[*peers], metavar="A,B")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--budget", type=float, default=budget, help="seconds a model may take")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results" / output)
    return parser.parse_args()


def _listed(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    main()
