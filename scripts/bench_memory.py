"""Time the zoo's memory-intensive subgraphs against every peer, beside a copy of the same bytes.

    python scripts/bench_memory.py                   # docs/results/bench_memory.{json,md}
    python scripts/bench_memory.py --names softmax --threads 2 --output /tmp/softmax

Each subgraph runs in a size that fits one core's L2 and in one that moves four times the L3 on
buffers rotated between runs. The JSON is written after every row; --render only prints it again.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx
import zoo
from bench_memory_table import render, summary
from git_state import described_commit

from tvm_stitch import targets
from tvm_stitch.errors import StitchError
from tvm_stitch.profiling.child import last_error
from tvm_stitch.profiling.harness import Crew, OursDied, compare
from tvm_stitch.profiling.peer import AGAINST, OURS, Job
from tvm_stitch.profiling.rounds import Pace

ROOT = Path(__file__).resolve().parents[1]
YARDSTICKS = ("copy", "copy-stream")
PACE = Pace(rounds=9, turn_s=0.15, turn_runs=150)
L3_MULTIPLE = 4
# It tunes products, of which there are none here.
PEERS = [name for name in AGAINST if name != "inductor-max-autotune"]


def main() -> None:
    args = _arguments()
    path = args.output.with_suffix(".json")
    if args.render:
        record = json.loads(path.read_text())
    else:
        record = _header(args)
        for row in _measured(args):
            record["rows"].append(row)
            path.write_text(json.dumps(record, indent=1) + "\n")
    args.output.with_suffix(".md").write_text(render(record))
    print(summary(record))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--names", type=_listed, default=list(zoo.SUBGRAPHS), metavar="A,B")
    parser.add_argument("--sizes", type=_listed, default=["cache", "memory"], metavar="A,B")
    parser.add_argument("--threads", type=_counts, default=[1, 2], metavar="1,2")
    parser.add_argument("--against", type=_listed, default=PEERS, metavar="A,B")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--budget", type=float, default=120.0, help="seconds a row may take")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results/bench_memory")
    parser.add_argument("--render", action="store_true", help="render the JSON that is there")
    return parser.parse_args()


def _measured(args: argparse.Namespace) -> Iterator[dict]:
    peers = [row for name in args.against for row in AGAINST[name]]
    l3_bytes = targets.machine().l3_bytes
    for threads in args.threads:
        with Crew(threads) as crew:
            for name in args.names:
                for size in args.sizes:
                    shape = zoo.bench_shapes(name)[size]
                    row = {"name": name, "size": size, "shape": shape, "threads": threads}
                    row |= _row(crew, args, peers, row, l3_bytes)
                    print(f"{name} {shape} {threads} threads: {_told(row)}", file=sys.stderr)
                    yield row


def _row(crew: Crew, args: argparse.Namespace, peers: list[str], key: dict, l3_bytes: int) -> dict:
    model = zoo.subgraph(key["name"], key["shape"], args.dtype)
    path, moved = crew.workdir / f"{key['name']}.onnx", zoo.traffic_bytes(model)
    onnx.save(model, path)
    sets = max(2, math.ceil(L3_MULTIPLE * l3_bytes / moved)) if key["size"] == "memory" else 1
    job = Job(path, crew.workdir, crew.threads, copy_bytes=moved)
    inputs, names = zoo.random_inputs(model), [OURS, *YARDSTICKS, *peers]
    facts = {"bytes": moved, "sets": sets, "dtype": args.dtype}
    try:
        rows = compare(crew, job, inputs, names, args.budget, sets=sets, pace=PACE)
    except (OursDied, StitchError) as error:
        return {**facts, "error": str(error), "peers": []}
    return {**facts, "peers": [row.to_json() for row in rows]}


def _told(row: dict) -> str:
    if "error" in row:
        return last_error(row["error"])
    timed = [peer for peer in row["peers"] if peer["timing"]]
    return ", ".join(f"{peer['peer']} {peer['timing']['median_us']:.0f}" for peer in timed)


def _header(args: argparse.Namespace) -> dict:
    machine = targets.machine()
    caches = {"l2_bytes": machine.l2_bytes, "l3_bytes": machine.l3_bytes}
    device = {"mcpu": machine.mcpu, "cpus": machine.cpus, **caches, "system": platform.system()}
    arguments = [str(argument) for argument in sys.argv[1:]]
    command = " ".join(["python scripts/bench_memory.py", *arguments])
    return {"command": command, "commit": described_commit(), "device": device, "rows": []}


def _listed(text: str) -> list[str]:
    return text.split(",")


def _counts(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


if __name__ == "__main__":
    try:
        main()
    except StitchError as error:
        sys.exit(str(error))
