"""Tell, before compiling, whether stitching a model is predicted to pay."""

from __future__ import annotations

import argparse
from pathlib import Path

import tvm_stitch
from tvm_stitch.cli.options import add_compile_options, compile_options


def add_parser(commands) -> None:
    cmd = commands.add_parser("advise", help="is stitching worth it here", description=__doc__)
    cmd.add_argument("model", type=Path, metavar="MODEL")
    add_compile_options(cmd)
    cmd.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    print(tvm_stitch.advise(args.model, **compile_options(args)))
