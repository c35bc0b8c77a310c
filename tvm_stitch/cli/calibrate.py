"""Measure this machine for the cost model, in about a minute of an otherwise idle machine."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tvm_stitch.cli.options import parse_count
from tvm_stitch.errors import StitchError


def add_parser(commands) -> None:
    cmd = commands.add_parser("calibrate", help="measure this machine", description=__doc__)
    cmd.add_argument("-o", "--output", type=Path, metavar="PROFILE", help="write the figures here")
    cmd.add_argument("--threads", type=parse_count, metavar="N", help="largest count measured")
    cmd.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from rich.console import Console

    from tir_schedules.host import available_cpus
    from tvm_stitch.profiling.calibration import calibrate, describe
    from tvm_stitch.runtime.artifact import atomically, check_writable

    allowed = available_cpus()
    threads = allowed if args.threads is None else args.threads
    if not 1 <= threads <= allowed:
        rule = f"this process may use {allowed} CPUs"
        raise StitchError(f"--threads {threads}", rule, f"give 1 to {allowed}")
    if args.output is not None:
        check_writable(args.output)
    command = " ".join(["tvm-stitch calibrate", *_given(args)])
    with Console(stderr=True).status("calibrating") as status:
        profile = calibrate(threads, command, status.update)
    for line in describe(profile):
        print(line)
    if args.output is not None:
        with atomically(args.output) as file:
            file.write(f"{json.dumps(profile.to_json(), indent=1)}\n".encode())


def _given(args: argparse.Namespace) -> list[str]:
    return ["--threads", str(args.threads)] if args.threads is not None else []
