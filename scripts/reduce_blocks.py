"""Reduce a network of check_all.py's section `blocks` that fails to a small one that fails too.

    python scripts/reduce_blocks.py 30 --seconds 300 -o smallest.onnx

Prints the smallest graph found, how it was compiled, and what is wrong with it.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import checks  # noqa: F401  (this tree's packages and tests come first from here on)
import onnx
from checks.crew import Worker

from support.blocks.reducer import Part, reduced, whole
from support.random_graphs.case import describe


def main() -> int:
    args = _arguments()
    worker = Worker("blocks")
    last: dict[str, dict] = {}

    def fails(part: Part) -> bool:
        answer = worker.run(part.to_json())
        if not answer.get("wrong") and "error" not in answer:
            return False
        last["answer"] = answer
        print(f"{len(part.graph().nodes)} nodes fail", file=sys.stderr)
        return True

    first = Part.from_json(args.case) if args.case.startswith("{") else whole(int(args.case))
    if not fails(first):
        print(f"reduce_blocks.py: case {args.case} does not fail", file=sys.stderr)
        return 1
    smallest = reduced(first, fails, time.monotonic() + args.seconds)
    worker.stop()
    graph = smallest.graph()
    print(describe(graph))
    print(smallest.way)
    print("\n".join(last["answer"].get("wrong", [])) or last["answer"]["error"])
    if args.output is not None:
        onnx.save(graph.model(), args.output)
    print(smallest.to_json())
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("case", help="a seed, or a part as this command writes it")
    parser.add_argument("--seconds", type=float, default=300.0, help="time for it")
    parser.add_argument("-o", "--output", type=Path, metavar="MODEL.onnx")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
