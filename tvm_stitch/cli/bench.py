"""Time a model side by side with other compilers, each in a process of its own."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from tir_schedules.host import available_cpus
from tvm_stitch import targets
from tvm_stitch.cli.options import add_compile_options, parse_count, parse_seconds
from tvm_stitch.errors import StitchError
from tvm_stitch.profiling.harness import Crew, Row, compare
from tvm_stitch.profiling.inputs import random_inputs
from tvm_stitch.profiling.peer import AGAINST, OURS, PEERS, Job
from tvm_stitch.profiling.table import render
from tvm_stitch.runtime import gpu_driver
from tvm_stitch.runtime.artifact import atomically, check_writable


def add_parser(commands) -> None:
    cmd = commands.add_parser("bench", help="time it against its peers", description=__doc__)
    cmd.add_argument("model", type=Path, metavar="MODEL.onnx")
    known = ",".join(AGAINST)
    cmd.add_argument("--against", type=_peers, metavar="PEERS", help=f"some of {known}; all")
    cmd.add_argument("--budget", type=parse_seconds, default=300.0, metavar="SECONDS")
    cmd.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    cmd.add_argument(
        "--sets", type=parse_count, default=1, metavar="N", help="copies of the inputs to rotate"
    )
    add_compile_options(cmd)
    cmd.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    named = args.against or list(AGAINST)
    peers = [row for name in named for row in AGAINST[name]]
    if args.against is not None:
        refuse_missing(peers)
    if args.json is not None:
        check_writable(args.json)
    threads = args.threads or available_cpus()
    if arch := targets.gpu_arch(targets.resolve(args.target)):
        gpu_driver.gpu(arch)
    shapes = dict(args.shape)
    inputs = random_inputs(args.model, shapes)
    load = os.getloadavg()[0]
    with Crew(threads, bool(arch)) as crew:
        options = (threads, shapes, args.target, args.log, args.profile)
        job = Job(args.model.resolve(), crew.workdir, *options, gpu=bool(arch))
        rows = compare(crew, job, inputs, [OURS, *peers], args.budget, sets=args.sets)
    print(f"{args.model}: {threads} threads, load {load:.1f} before, {_kernels(rows)}")
    print(render(rows))
    if args.json is not None:
        record = {"model": str(args.model), "threads": threads, "target": args.target}
        record |= {"load_before": load}
        record |= {"shapes": {name: value.shape for name, value in inputs.items()}}
        record |= {"sets": args.sets, "rows": [row.to_json() for row in rows]}
        with atomically(args.json) as file:
            file.write(f"{json.dumps(record, indent=2)}\n".encode())


def refuse_missing(peers: list[str]) -> None:
    """Raise StitchError if a peer that the user named is not installed."""
    for name in peers:
        if reason := PEERS[name].missing():
            remedy = "pip install 'tvm-stitch[bench]', or leave it out of --against"
            raise StitchError(f"missing peer {name}", reason, remedy)


def _kernels(rows: list[Row]) -> str:
    facts = next(row.facts for row in rows if row.peer == OURS)
    return f"{facts.get('kernels')} kernels, {facts.get('fallbacks')} on the fallback schedule"


def _peers(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in AGAINST]:
        known = ", ".join(AGAINST)
        raise argparse.ArgumentTypeError(f"no peer {unknown[0]!r}; there are {known}")
    return names
