"""Time the planner on synthetic graphs of 1,000 to 50,000 ops, and show that time grows as they do.

python scripts/bench_planning.py              # docs/results/bench_planning.{json,md}
python scripts/bench_planning.py --sizes 1000 --against CHECKOUT   # of another commit, in turns
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from git_state import described_commit, git
from tvm import relax
from tvm.ir import IRModule
from tvm.relax import op

from relay_passes.fusion.planner import StitchPlanner
from relay_passes.graph.op_graph import OpGraph
from relay_passes.rewrites.legalize.legalize import LEGALIZATIONS
from tir_schedules.device import CpuDevice
from tir_schedules.host import host_mcpu
from tvm_stitch import targets

ROOT = Path(__file__).resolve().parents[1]
SHAPE = (64, 256)
WIDTH, REACH = 50, 8
ROUNDS = 5
_UNARY = (op.exp, op.tanh, op.sigmoid, op.negative, op.abs, op.nn.relu)
_BINARY = (op.add, op.multiply, op.subtract, op.maximum)


class _Builder:
    """Emits ops and counts them."""

    def __init__(self) -> None:
        self.rng, self.count = random.Random(0), 0
        self._builder = relax.BlockBuilder()
        self.x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
        self.w = relax.Var("w", relax.TensorType((SHAPE[1], SHAPE[1]), "float32"))

    def emit(self, call: relax.Expr) -> relax.Var:
        self.count += 1
        return self._builder.emit(call)

    def unary(self, x: relax.Var) -> relax.Var:
        return self.emit(self.rng.choice(_UNARY)(x))

    def binary(self, x: relax.Var, y: relax.Var) -> relax.Var:
        return self.emit(self.rng.choice(_BINARY)(x, y))

    def norm(self, x: relax.Var) -> relax.Var:
        """Return x less its mean over the last axis, divided by what is left."""
        apart = self.emit(op.subtract(x, self.emit(op.mean(x, axis=-1, keepdims=True))))
        square = self.emit(op.mean(self.emit(op.multiply(apart, apart)), axis=-1, keepdims=True))
        return self.emit(op.multiply(apart, self.emit(op.rsqrt(square))))

    def module(self, emit: Callable[[_Builder, int], relax.Var], count: int) -> IRModule:
        with self._builder.function("main", [self.x, self.w]):
            with self._builder.dataflow():
                result = self._builder.emit_output(emit(self, count))
            self._builder.emit_func_output(result)
        return relax.transform.LegalizeOps(LEGALIZATIONS)(self._builder.get())


def chain(b: _Builder, count: int) -> relax.Var:
    """Element-wise ops in a row, a normalisation now and then."""
    x = b.x
    while b.count < count:
        x = b.norm(x) if b.rng.random() < 0.02 else b.unary(x)
    return x


def wide(b: _Builder, count: int) -> relax.Var:
    """Layers of ops, each of two ops of the layer before."""
    layer = [b.unary(b.x) for _ in range(WIDTH)]
    while b.count < count:
        layer = [b.binary(*b.rng.sample(layer, 2)) for _ in range(WIDTH)]
    total = layer[0]
    for each in layer[1:]:
        total = b.emit(op.add(total, each))
    return total


def blocks(b: _Builder, count: int) -> relax.Var:
    """Transformer blocks: normalisation, products, softmax, residual sums."""
    x = b.x
    while b.count < count:
        y = b.emit(op.matmul(b.norm(x), b.w))
        y = b.emit(op.nn.softmax(b.emit(op.multiply(y, relax.const(0.125)))))
        x = b.emit(op.add(x, b.emit(op.matmul(y, b.w))))
        y = b.emit(op.nn.gelu(b.emit(op.matmul(b.norm(x), b.w))))
        x = b.emit(op.add(x, y))
    return x


def dense(b: _Builder, count: int) -> relax.Var:
    """Dense skip connections: each op adds one of the last results to a sum of two others."""
    recent = [b.unary(b.x)]
    while b.count < count:
        picked = [b.rng.choice(recent[-REACH:]) for _ in range(3)]
        recent.append(b.unary(b.binary(b.binary(picked[0], picked[1]), picked[2])))
    return recent[-1]


GRAPHS = {"chain": chain, "wide": wide, "blocks": blocks, "dense": dense}


def measure(name: str, count: int) -> dict:
    """Return the time of planning one graph, and what came of it."""
    mod = _Builder().module(GRAPHS[name], count)
    (block,) = mod["main"].body.blocks
    graph = OpGraph(mod, block, {})
    device = CpuDevice.detect(targets.resolve("x86", 2), 2)
    gc.collect()
    start = time.perf_counter()
    plan = StitchPlanner(device).plan(graph)
    seconds = time.perf_counter() - start
    ops = sum(n.op_class != "alias" for n in graph.nodes)
    return {"graph": name, "ops": ops, "kernels": len(plan.groups), "seconds": seconds}


def in_turns(root: Path, options: list[str]) -> list[str]:
    """Return a table of this tree's times beside another's: medians of each one's processes."""
    taken: dict[Path, list[dict[str, float]]] = {ROOT: [], root: []}
    for _ in range(ROUNDS):
        for tree, rounds in taken.items():
            rounds.append(_seconds(tree, options))
    lines = ["| graph | ops | s | s of the other | ratio |", "|---|--:|--:|--:|--:|"]
    for key in taken[ROOT][0]:
        ours, other = (statistics.median(r[key] for r in taken[tree]) for tree in (ROOT, root))
        lines.append(f"| {key} | {ours:.2f} | {other:.2f} | {ours / other:.2f} |")
    return lines


def _seconds(tree: Path, options: list[str]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "planning"
        command = [sys.executable, tree / "scripts/bench_planning.py", *options, "--output", output]
        paths = {**os.environ, "PYTHONPATH": str(tree)}
        subprocess.run(command, env=paths, check=True, stdout=subprocess.DEVNULL)
        rows = json.loads(output.with_suffix(".json").read_text())
    return {f"{row['graph']} | {row['ops']}": row["seconds"] for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", default="1000,10000,50000", metavar="N,M")
    parser.add_argument("--graphs", default=",".join(GRAPHS), metavar="A,B")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results/bench_planning")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT")
    args = parser.parse_args()
    against = "" if args.against is None else " --against CHECKOUT"
    command = (
        f"python scripts/bench_planning.py --sizes {args.sizes} --graphs {args.graphs}{against}"
    )
    head = f"`{command}` at {described_commit()}, {host_mcpu()}"
    if args.against is not None:
        options = ["--sizes", args.sizes, "--graphs", args.graphs]
        other = git("-C", str(args.against), "rev-parse", "--short", "HEAD")
        told = f"{head}, the other at {other}, medians of {ROUNDS} processes each, in turns."
        lines = [told, "", *in_turns(args.against.resolve(), options)]
        print("\n".join(lines))
        _write(args.output, lines)
        return
    rows = []
    lines = [f"{head}.", "", "| graph | ops | kernels | s | us an op |", "|---|--:|--:|--:|--:|"]
    for name in args.graphs.split(","):
        for count in map(int, args.sizes.split(",")):
            rows.append(row := measure(name, count))
            ops, seconds = row["ops"], row["seconds"]
            each = f"{seconds:.2f} | {1e6 * seconds / ops:.0f}"
            lines.append(f"| {name} | {ops} | {row['kernels']} | {each} |")
            print(lines[-1], flush=True)
    args.output.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")
    _write(args.output, lines)


def _write(output: Path, lines: list[str]) -> None:
    output.with_suffix(".md").write_text("\n".join(["# Planning", "", *lines]) + "\n")


if __name__ == "__main__":
    main()
