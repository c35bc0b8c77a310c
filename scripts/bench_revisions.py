"""Time models as another revision compiled them beside this one's, in turns.

    python scripts/bench_revisions.py ade606b                    # docs/results/revisions.{json,md}
    python scripts/bench_revisions.py main~20 --names bert,softmax --seconds 10

The rows are whole models of the zoo, the memory-intensive subgraphs, and by `--names 1024x1024x8`
products of these sizes, m x n x k, the second operand a weight. Each revision has a process
of its own, with its own packages, and the two are asked in a new order each round; the ratio is the
median over rounds of the base's time over ours. The JSON is written after every row.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import zoo
from bench_gemm import Product
from bench_models import MODELS
from git_state import described_commit, git

from tvm_stitch import targets

ROOT = Path(__file__).resolve().parents[1]
BASE, OURS = "base", "ours"
TURN_S = 0.1
LEAST_ROUNDS = 7


class Revision:
    """A process that compiles and times with one revision's packages."""

    def __init__(self, root: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(ROOT / "scripts/revision_worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": str(root)},
        )

    def ask(self, **question: object) -> dict:
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"a worker died with exit code {self._process.wait()}")
        return json.loads(answer)

    def stop(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    args = _arguments()
    record = {
        "command": " ".join(["python scripts/bench_revisions.py", *sys.argv[1:]]),
        "commit": described_commit(),
        "base": git("rev-parse", "--short", args.base),
        "mcpu": targets.machine().mcpu,
        "threads": args.threads,
        "rows": [],
    }
    path = args.output.with_suffix(".json")
    with tempfile.TemporaryDirectory(prefix="revision-") as folder:
        tree = Path(folder) / "tree"
        git("worktree", "add", "--detach", str(tree), args.base)
        try:
            revisions = {BASE: Revision(tree), OURS: Revision(ROOT)}
            for name, make in _models(args.names):
                record["rows"].append(_row(name, make(), revisions, args, Path(folder)))
                path.write_text(json.dumps(record, indent=1) + "\n")
                row = record["rows"][-1]
                print(
                    f"{name}: {row[BASE]:.1f} / {row[OURS]:.1f} us, {row['ratio']:.3f}", flush=True
                )
            for revision in revisions.values():
                revision.stop()
        finally:
            git("worktree", "remove", "--force", str(tree))
    args.output.with_suffix(".md").write_text(render(record))
    print(summary(record))


def _models(names: list[str]) -> Iterator[tuple[str, Callable[[], onnx.ModelProto]]]:
    """Yield whole models, products, and each subgraph in the sizes that bench_memory times."""
    for name in names:
        if sizes := re.fullmatch(r"(\d+)x(\d+)x(\d+)", name):
            yield name, Product("product", *map(int, sizes.groups())).model
            continue
        if name in zoo.MODELS:
            yield name, partial(zoo.model, name)
            continue
        for size, shape in zoo.bench_shapes(name).items():
            yield f"{name} {size}", partial(zoo.subgraph, name, shape)


def _row(
    name: str, proto: onnx.ModelProto, revisions: dict, args: argparse.Namespace, folder: Path
) -> dict:
    model, inputs = folder / "model.onnx", folder / "inputs.npz"
    onnx.save(proto, model)
    np.savez(inputs, **zoo.random_inputs(proto, seed=1))
    asked = {"compile": str(model), "inputs": str(inputs), "threads": args.threads}
    kernels = {key: each.ask(**asked)["kernels"] for key, each in revisions.items()}
    rounds: list[dict[str, float]] = []
    while len(rounds) < LEAST_ROUNDS or sum(map(_spent, rounds)) < args.seconds:
        order = random.sample(list(revisions), len(revisions))
        rounds.append({key: revisions[key].ask(turn=TURN_S)["us"] for key in order})
    ratios = [each[BASE] / each[OURS] for each in rounds]
    middle = statistics.median(ratios)
    return {
        "name": name,
        "kernels": kernels,
        **{key: statistics.median(each[key] for each in rounds) for key in revisions},
        "ratio": middle,
        "spread": statistics.median(abs(ratio - middle) for ratio in ratios),
        "rounds": len(rounds),
    }


def _spent(times: dict[str, float]) -> float:
    """Return about how many seconds a round took."""
    return sum(max(TURN_S, us * 1e-6) for us in times.values())


def render(record: dict) -> str:
    lines = [
        "# This revision beside another",
        "",
        f"`{record['command']}` at {record['commit']}, {record['mcpu']}, {record['threads']} "
        f"threads, us. The ratio is the time at {record['base']} over ours. {summary(record)}",
        "",
        "| row | kernels then | now | us then | now | ratio | spread |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for row in record["rows"]:
        kernels = " | ".join(str(row["kernels"][key]) for key in (BASE, OURS))
        lines.append(
            f"| {row['name']} | {kernels} | {row[BASE]:.1f} | {row[OURS]:.1f} "
            f"| {row['ratio']:.3f} | {row['spread']:.3f} |"
        )
    return "\n".join(lines) + "\n"


def summary(record: dict) -> str:
    """Return the geometric means of the models' ratios and of the subgraphs'."""
    found = []
    for what, whole in (("models", True), ("subgraphs", False)):
        ratios = [r["ratio"] for r in record["rows"] if (r["name"] in zoo.MODELS) == whole]
        if ratios:
            mean = math.exp(statistics.mean(map(math.log, ratios)))
            found.append(f"{len(ratios)} {what}: {mean:.3f} in the mean, lowest {min(ratios):.3f}")
    return "; ".join(found)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("base", help="the revision to compare with")
    parser.add_argument("--names", type=_listed, default=[*MODELS, *zoo.SUBGRAPHS], metavar="A,B")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0, help="a row is timed for")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results/revisions")
    return parser.parse_args()


def _listed(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    main()
