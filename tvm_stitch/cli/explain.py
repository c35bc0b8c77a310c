"""Tell what is fused into what, what it saves, and why each group stopped where it did."""

from __future__ import annotations

import argparse
from pathlib import Path

import tvm_stitch
from tvm_stitch.cli.options import add_compile_options, add_fuel, compile_options
from tvm_stitch.errors import StitchError


def add_parser(commands) -> None:
    cmd = commands.add_parser("explain", help="what is fused, and why", description=__doc__)
    cmd.add_argument("model", type=Path, metavar="MODEL")
    cmd.add_argument("--plan", metavar="KERNEL", help="print how one kernel of it runs")
    add_fuel(cmd)
    add_compile_options(cmd)
    cmd.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    options = compile_options(args)
    if args.plan is None:
        print(tvm_stitch.explain(args.model, fuel=args.fuel, **options))
        return
    plans = tvm_stitch.plans(args.model, fuel=args.fuel, **options)
    if args.plan not in plans:
        rule = f"the model has the kernels {', '.join(sorted(plans)) or 'of no template'}"
        raise StitchError(f"--plan {args.plan}", rule, "name one of them")
    print(plans[args.plan])
