"""Measure on this machine for a tuner elsewhere, until interrupted.

Whoever reaches the port, or the tracker, can run any code here: TVM's RPC has no passwords. Serve
in a network of your own only.
"""

from __future__ import annotations

import argparse

from tvm_stitch.cli.options import add_tracker, parse_port


def add_parser(commands) -> None:
    cmd = commands.add_parser("serve", help="measure for a tuner elsewhere", description=__doc__)
    add_tracker(cmd, required=True, told="the TVM RPC tracker that lends this machine")
    cmd.add_argument(
        "--host", default="127.0.0.1", help="the address to listen at (default: %(default)s)"
    )
    told = "the first port to try (default: %(default)s)"
    cmd.add_argument("--port", type=parse_port, default=9090, metavar="N", help=told)
    cmd.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from tvm_stitch.tuning.measure.rpc_server import serve

    serve(args.tracker, args.key, args.host, args.port)
