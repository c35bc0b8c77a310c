"""Tell what is fused into what, what it saves, and why each group stopped where it did."""

from __future__ import annotations

import argparse
from pathlib import Path

import tvm_stitch
from tvm_stitch.cli.options import add_compile_options, add_fuel, compile_options


def add_parser(commands) -> None:
    cmd = commands.add_parser("explain", help="what is fused, and why", description=__doc__)
    cmd.add_argument("model", type=Path, metavar="MODEL")
    add_fuel(cmd)
    add_compile_options(cmd)
    cmd.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    print(tvm_stitch.explain(args.model, fuel=args.fuel, **compile_options(args)))
