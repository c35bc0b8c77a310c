"""Compile a model into one shared library."""

from __future__ import annotations

import argparse
from pathlib import Path

import tvm_stitch
from tvm_stitch.cli.options import add_compile_options, add_fuel, compile_options


def add_parser(commands) -> None:
    cmd = commands.add_parser("compile", help="build a shared library", description=__doc__)
    cmd.add_argument("model", type=Path, metavar="MODEL")
    cmd.add_argument("-o", "--output", type=Path, required=True, metavar="OUT")
    cmd.add_argument("--dump-ir", type=Path, metavar="DIR", help="write the IR after each pass")
    cmd.add_argument(
        "--verify", action="store_true", help="compare each kernel with its operators first"
    )
    cmd.add_argument(
        "--on-mismatch",
        choices=("refuse", "unfuse"),
        default="refuse",
        help="with --verify: write no file, or take the wrong kernel apart (default: %(default)s)",
    )
    add_fuel(cmd)
    add_compile_options(cmd)
    cmd.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from tvm_stitch.runtime.artifact import check_writable

    check_writable(args.output)
    model = tvm_stitch.compile(
        args.model,
        dump_dir=args.dump_ir,
        fuel=args.fuel,
        verify=args.verify,
        on_mismatch=args.on_mismatch,
        **compile_options(args),
    )
    model.export(args.output)
    print(f"{args.output}: {str(model.report).splitlines()[0]}")
    for group in model.report.unfused:
        print(group)
