"""Measure this machine, or its GPU, for the cost model: about a minute of an idle machine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_stitch.cli.options import parse_count
from tvm_stitch.errors import StitchError

if TYPE_CHECKING:
    from tir_schedules.device.gpu_profile import GpuProfile
    from tir_schedules.device.profile import Profile


def add_parser(commands) -> None:
    cmd = commands.add_parser("calibrate", help="measure this machine", description=__doc__)
    cmd.add_argument("-o", "--output", type=Path, metavar="PROFILE", help="write the figures here")
    told = "x86: the CPU, the default; cuda: the first GPU"
    cmd.add_argument("--target", choices=("x86", "cuda"), default="x86", help=told)
    cmd.add_argument("--threads", type=parse_count, metavar="N", help="largest count measured")
    told = "measure nothing, fit the profile to the trials of this machine in a tuning log"
    cmd.add_argument("--from-log", metavar="LOG", help=told)
    told = "with --from-log, the profile that is fitted (default: the shipped one)"
    cmd.add_argument("--profile", type=Path, metavar="FILE", help=told)
    cmd.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from tir_schedules.host import available_cpus
    from tvm_stitch.runtime.artifact import atomically, check_writable

    if args.target == "cuda":
        _refuse_beside_cuda(args)
    allowed = available_cpus()
    threads = allowed if args.threads is None else args.threads
    if not 1 <= threads <= allowed:
        rule = f"this process may use {allowed} CPUs"
        raise StitchError(f"--threads {threads}", rule, f"give 1 to {allowed}")
    if args.output is not None:
        check_writable(args.output)
    if args.profile is not None and args.from_log is None:
        rule = "says nothing: everything is measured"
        raise StitchError("--profile", rule, "leave it out, or add --from-log LOG")
    command = " ".join(["tvm-stitch calibrate", *_given(args)])
    made = _MAKERS[args.target] if args.from_log is None else _refitted
    profile, lines = made(args, threads, command)
    for line in lines:
        print(line)
    if args.output is not None:
        with atomically(args.output) as file:
            file.write(f"{json.dumps(profile.to_json(), indent=1)}\n".encode())


def _measured(
    _args: argparse.Namespace, threads: int, command: str
) -> tuple[Profile, Iterable[str]]:
    from rich.console import Console

    from tvm_stitch.profiling.calibration.cpu import calibrate, describe

    with Console(stderr=True).status("calibrating") as status:
        profile = calibrate(threads, command, status.update)
    return profile, describe(profile)


def _measured_gpu(
    _args: argparse.Namespace, _threads: int, command: str
) -> tuple[GpuProfile, Iterable[str]]:
    from rich.console import Console

    from tvm_stitch.profiling.calibration.gpu import calibrate, describe

    with Console(stderr=True).status("calibrating") as status:
        profile = calibrate(command, status.update)
    return profile, describe(profile)


_MAKERS = {"x86": _measured, "cuda": _measured_gpu}


def _refuse_beside_cuda(args: argparse.Namespace) -> None:
    """Raise StitchError for an option that is for CPUs."""
    options = {"--threads": args.threads, "--from-log": args.from_log, "--profile": args.profile}
    for name, value in options.items():
        if value is not None:
            raise StitchError(f"{name} {value}", "it is for CPUs", "leave it out")


def _refitted(
    args: argparse.Namespace, threads: int, command: str
) -> tuple[Profile, Iterable[str]]:
    from rich.console import Console

    from tir_schedules.backend import device_of
    from tir_schedules.device.profile import ProfileError, load_profile
    from tvm_stitch import targets
    from tvm_stitch.tuning.log import Log
    from tvm_stitch.tuning.refit.from_log import describe, refit

    try:
        base = None if args.profile is None else load_profile(args.profile)
    except ProfileError as error:
        raise StitchError(error.given, error.rule, error.remedy) from None
    device = device_of(targets.resolve("x86", threads), threads, base)
    with Log.open(args.from_log) as log, Console(stderr=True).status("fitting"):
        found = refit(log, device, command)
    return found.profile, describe(found)


def _given(args: argparse.Namespace) -> list[str]:
    target = ["--target", args.target] if args.target != "x86" else []
    threads = ["--threads", str(args.threads)] if args.threads is not None else []
    log = ["--from-log", "LOG"] if args.from_log is not None else []
    return [*target, *threads, *log]
