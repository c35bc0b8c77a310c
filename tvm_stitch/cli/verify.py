"""Compile a model and compare each of its kernels, and all of it, with its operators one by one.

Where only the whole model is wrong, the rewrite or fusion that makes it so is named, found by fuel.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import tvm_stitch
from tvm_stitch.cli.options import (
    add_compile_options,
    add_fuel,
    compile_options,
    parse_seconds,
)


def add_parser(commands) -> None:
    cmd = commands.add_parser("verify", help="find the wrong kernel", description=__doc__)
    cmd.add_argument("model", type=Path, metavar="MODEL")
    source = cmd.add_mutually_exclusive_group()
    source.add_argument("--inputs", type=Path, metavar="DIR", help="NAME.npy for each input")
    source.add_argument("--seed", type=int, default=0, metavar="N", help="of random inputs")
    cmd.add_argument(
        "--budget",
        type=parse_seconds,
        metavar="SECONDS",
        help="afterwards, compare each kernel once only",
    )
    cmd.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="write reproducers of wrong kernels here"
    )
    add_fuel(cmd)
    add_compile_options(cmd)
    cmd.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    found = tvm_stitch.verify(
        args.model,
        inputs=args.inputs,
        seed=args.seed,
        budget=args.budget,
        reproducers=args.output,
        fuel=args.fuel,
        **compile_options(args),
    )
    print(found)
    return 0 if found else 1
