"""The command line: one module a command, imported only when its command is called."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from tvm_stitch.errors import StitchError

_COMMANDS = {
    "compile": "build a model's shared library",
    "run": "run a compiled model on .npy files",
    "bench": "time a model against other compilers",
    "explain": "tell what is fused into what, and what was refused and why",
    "verify": "compare each kernel with its operators; name the wrong one",
    "advise": "tell whether stitching is predicted to pay, before compiling",
    "tune": "search for decisions that make a model's kernels faster here",
    "serve": "measure on this machine for a tuner elsewhere, by TVM's RPC tracker",
    "log": "look into tuning logs: list, export, import, merge, prune",
    "calibrate": "measure this machine for the cost model",
    "doctor": "tell what this machine and installation can do, and what is broken",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0 when done, 1 for a user's error. Bad usage exits with 2."""
    argv = sys.argv[1:] if argv is None else list(argv)
    args = _parser(argv).parse_args(argv)
    try:
        code = args.run(args) or 0
        sys.stdout.flush()  # here, and not when nobody can tell
        return code
    except BrokenPipeError:
        # Who reads, `head` perhaps, has enough; nothing is left to be flushed there at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except StitchError as error:
        print(f"tvm-stitch {args.command}: {error}", file=sys.stderr)
        return 1


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Return a parser of all commands, of which only the one in `argv` knows its options."""
    parser = argparse.ArgumentParser(prog="tvm-stitch", description="Stitch models with TVM.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    called = next((argument for argument in argv if not argument.startswith("-")), None)
    for name, summary in _COMMANDS.items():
        if name == called:
            importlib.import_module(f"tvm_stitch.cli.{name}").add_parser(commands)
        else:
            commands.add_parser(name, help=summary)
    return parser
