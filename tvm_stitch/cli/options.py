"""The options every command that compiles a model takes, under the same names."""

from __future__ import annotations

import argparse
import math
import re
import sys
from pathlib import Path
from typing import Any

from tvm_stitch.tuning.measure.rpc_address import Address

_UNITS = {"s": 1, "m": 60, "h": 3600}


def add_compile_options(cmd: argparse.ArgumentParser, log: bool = True) -> None:
    """Add --target, --shape, --threads, --profile, and --log unless that is another argument."""
    cmd.add_argument(
        "--target",
        default="x86",
        help="x86 (this machine), cuda, an LLVM CPU name such as x86-64-v3, or a TVM target "
        "(default: %(default)s)",
    )
    cmd.add_argument(
        "--shape",
        action="append",
        type=parse_shape,
        default=[],
        metavar="NAME=1,128",
        help="the shape of an input the model leaves open; may be repeated, also for one input: "
        "the model is compiled for each of its shapes",
    )
    cmd.add_argument(
        "--threads", type=parse_count, metavar="N", help="(default: the CPUs it may use)"
    )
    cmd.add_argument(
        "--fallback",
        choices=("refuse", "onnxruntime"),
        default="refuse",
        help="who runs the operators that no one here compiles (default: %(default)s)",
    )
    if log:
        told = "tuning log: a file, or postgresql://HOST/DATABASE"
        cmd.add_argument("--log", metavar="LOG", help=told)
    cmd.add_argument("--profile", type=Path, metavar="FILE", help="what calibrate measured")


def add_fuel(cmd: argparse.ArgumentParser) -> None:
    """Add --fuel, to bisect a wrong answer."""
    cmd.add_argument("--fuel", type=parse_fuel, metavar="N", help="stop after N rewrites, 0 too")


def compile_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the parsed options as keywords of `tvm_stitch.compile`.

    More threads than CPUs are what a file for another machine may want, and a mistake otherwise.
    """
    from tir_schedules.host import available_cpus

    if args.threads is not None and args.threads > (cpus := available_cpus()):
        told = f"note: --threads {args.threads}: this process may use {cpus} CPUs"
        print(f"tvm-stitch {args.command}: {told}", file=sys.stderr)
    return {
        "target": args.target,
        "shapes": _by_input(args.shape) or None,
        "threads": args.threads,
        "fallback": args.fallback,
        "log": args.log,
        "profile": args.profile,
    }


def _by_input(shapes: list[tuple[str, tuple[int, ...]]]) -> dict[str, Any]:
    """Return the shape of each input, or the list of its shapes."""
    found: dict[str, list[tuple[int, ...]]] = {}
    for name, shape in shapes:
        found.setdefault(name, []).append(shape)
    return {name: each[0] if len(each) == 1 else each for name, each in found.items()}


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Parse NAME=1,128; the name may have an = in it, the shape of a scalar is empty."""
    name, equals, dims = text.rpartition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=1,128")
    try:
        shape = tuple(int(dim) for dim in dims.split(",")) if dims else ()
    except ValueError:
        raise argparse.ArgumentTypeError(f"{dims!r} is not a shape such as 1,128") from None
    if any(dim < 0 for dim in shape):
        raise argparse.ArgumentTypeError(f"{dims!r} has a negative extent")
    return name, shape


def parse_count(text: str) -> int:
    """Parse a positive count."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive count")
    return int(text)


def parse_address(text: str) -> Address:
    """Parse HOST:PORT."""
    try:
        return Address.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse_port(text: str) -> int:
    """Parse the number of a port."""
    return parse_address(f"host:{text}").port


def parse_key(text: str) -> str:
    """Parse what a tracker calls machines of one kind: TVM splits its messages at spaces."""
    if not re.fullmatch(r"[\w.-]+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not of letters, digits, '.', '_' and '-'")
    return text


def add_tracker(cmd: argparse.ArgumentParser, required: bool, told: str) -> None:
    """Add --tracker and --key."""
    cmd.add_argument(
        "--tracker", type=parse_address, required=required, metavar="HOST:PORT", help=told
    )
    cmd.add_argument(
        "--key", type=parse_key, required=required, help="what it calls machines of this kind"
    )


def parse_fuel(text: str) -> int:
    """Parse a count that may be zero."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a count")
    return int(text)


def parse_seconds(text: str) -> float:
    """Parse a time above zero: 90, 90s, 1.5m or 2h."""
    unit = _UNITS.get(text[-1:], 0)
    try:
        value = float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90 or 5m") from None
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 seconds")
    return value
