"""Tune 24 kernels, then time what was found beside the defaults in a run of its own.

python scripts/bench_tuning.py                    # docs/results/bench_tuning.{json,md}
python scripts/bench_tuning.py --names softmax,outer --trials 64
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import onnx
import zoo
from bench_conv import OTHERS
from bench_gemm import PRODUCTS
from git_state import described_commit
from idle_machine import require_idle

from tvm_stitch import targets
from tvm_stitch.build import Request
from tvm_stitch.profiling.harness import Crew as BenchCrew
from tvm_stitch.profiling.harness import compare
from tvm_stitch.profiling.peer import OURS, Job
from tvm_stitch.profiling.stats import geometric_mean
from tvm_stitch.tuning.kernel_tuner import KernelTuner
from tvm_stitch.tuning.log import Log
from tvm_stitch.tuning.measure.crew import Crew
from tvm_stitch.tuning.measure.outcome import Outcome, Pace
from tvm_stitch.tuning.measure.subject import KernelSubject
from tvm_stitch.tuning.model.gains import GainModel
from tvm_stitch.tuning.policy import POLICY
from tvm_stitch.tuning.session import Budget, Session
from tvm_stitch.tuning.tasks import Tasks, tasks_of

ROOT = Path(__file__).resolve().parents[1]
PEERS = ("onnxruntime", "openvino", "inductor")
SLOWEST = 0.98  # of the default's time over the tuned one
FRESH = Pace(rounds=31, slice_ns=8_000_000, slow=100.0)
LIBRARIES = 3  # of a process: where code lies makes much of a kernel in a few
PROCESSES = 3  # that time a kernel anew: where code and buffers lie in one makes some 3 %
STITCHED = (
    *((name, "cache") for name in ("softmax", "masked_softmax", "layernorm", "rmsnorm")),
    *((name, "cache") for name in ("residual_layernorm", "groupnorm", "bias_gelu", "gru_cell")),
    *((name, "memory") for name in ("layernorm", "bn_relu_residual", "row_and_column", "softmax")),
)
OF_PRODUCTS = (
    *((1024, 1024, 8), (32, 32, 16384), (1024, 1024, 1024), (4096, 17, 512)),
    *((127, 131, 137), (128, 768, 768), (17, 19, 23), (256, 256, 256)),
)
OF_CONVOLUTIONS = (0, 4, 11, 15)  # places in OTHERS: in groups, unlike in and out, ragged, dilated


def kernels(times: int = 1) -> Iterator[tuple[str, Callable[[], onnx.ModelProto]]]:
    """Yield names and models: 12 stitched, 8 products (m, n, k), 4 convolutions.

    With some `times` as many rows, or images.
    """
    for name, size in STITCHED:
        yield f"{name} {size}", partial(_subgraph, name, size, times)
    found = {(p.m, p.n, p.k): p for p in PRODUCTS if p.constant and not p.transposed}
    for sizes in OF_PRODUCTS:
        product = found[sizes]
        yield "product " + "x".join(map(str, sizes)), replace(product, m=times * product.m).model
    for place in OF_CONVOLUTIONS:
        yield f"convolution {OTHERS[place]}", partial(OTHERS[place].model, times)


def _subgraph(name: str, size: str, times: int) -> onnx.ModelProto:
    rows, *others = zoo.bench_shapes(name)[size]
    return zoo.subgraph(name, (times * rows, *others))


def main() -> int:
    """Return 1 if a tuned kernel is slower than its default."""
    args = _arguments()
    require_idle()
    wanted = tuple(args.names.split(","))
    record = {"command": " ".join(["python scripts/bench_tuning.py", *sys.argv[1:]])}
    record |= {"commit": described_commit(), "mcpu": targets.machine().mcpu}
    record |= {"rows": [], "models": []}
    for name, model in kernels():
        if any(each in name for each in wanted):
            with tempfile.TemporaryDirectory() as folder:
                log = args.log or f"{folder}/log"
                rows = [*_rows(name, model(), log, args)]
                record["rows"] += rows
                record["models"].append({"name": name, **_beside(model(), log, args)})
            print(*map(_line, rows), sep="\n", end=" ")
            print(_best_peer(record["models"][-1]), flush=True)
            args.output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
            args.output.with_suffix(".md").write_text(_render(record))
    print(_summary(record["rows"]))
    return int(any(row["gain"] < SLOWEST for row in _changed(record["rows"])))


def _rows(name: str, model: onnx.ModelProto, path: str, args: argparse.Namespace) -> Iterator[dict]:
    """Yield a row for each kernel of a model; most have one."""
    found = tasks_of(Request(model, threads=args.threads))
    with Log.open(path, create=True) as log:
        start = time.monotonic()
        session = tuned(found, log, args)
        spent = time.monotonic() - start
    for tuner in session.tuners:
        outcomes = [_fresh(tuner, found, args, number) for number in range(PROCESSES)]
        fresh = sorted(outcomes, key=lambda outcome: outcome.gain)[PROCESSES // 2]
        yield {
            "name": name,
            "kernel": tuner.task.name,
            "default_us": fresh.default_ns / 1e3,
            "tuned_us": fresh.ns / 1e3,
            "gain": fresh.gain,
            "noise": fresh.noise,
            "gains": [outcome.gain for outcome in outcomes],
            "is_default": tuner.best == tuner.task.candidates.default,
            "searched_gain": 2.0**tuner.gain,
            "trials": session.trials,
            "seconds": spent,
        }


def _fresh(tuner: KernelTuner, found: Tasks, args: argparse.Namespace, number: int) -> Outcome:
    """Return what the best decisions take in a process that takes no part in the search."""
    with Crew(found.target, args.threads, 1) as crew:
        crew.take(KernelSubject(tuner.task.candidates), args.seed + 1 + number)
        (outcome,) = crew.measure([tuner.best], FRESH)
    return outcome


def tuned(found: Tasks, log: Log, args: argparse.Namespace) -> Session:
    """Tune kernels into a log, however little each is of its model; return how far each came."""
    policy = replace(POLICY.session, worth=0.0)
    with Crew(found.target, args.threads, args.threads) as crew:
        shared = (log, crew, found.target, found.device, GainModel(), args.seed, _quiet)
        session = Session(found.tasks, *shared, policy)
        session.run(Budget(trials=args.trials * len(found.tasks)))
    return session


def _beside(model: onnx.ModelProto, log: str, args: argparse.Namespace) -> dict[str, dict]:
    """Return the medians in us of a model compiled by a log, and of the peers, in one run.

    `untimed` are the reasons of those that have none.
    """
    with BenchCrew(args.threads) as crew:
        path = crew.workdir / "model.onnx"
        onnx.save(model, path)
        job = Job(path, crew.workdir, args.threads, log=log)
        inputs = zoo.random_inputs(model)
        rows = compare(crew, job, inputs, [OURS, *args.peers], args.timing)
    return {
        "us": {row.peer: row.timing.median_us for row in rows if row.timing},
        "untimed": {row.peer: row.reason for row in rows if not row.timing},
    }


def _quiet(_session: Session) -> None:
    pass


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--names", default="", metavar="A,B", help="names that have this in them")
    parser.add_argument("--trials", type=int, default=256, help="of a kernel, at most")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", metavar="LOG", help="keep the trials there")
    parser.add_argument("--peers", type=listed, default=list(PEERS), metavar="A,B")
    parser.add_argument("--timing", type=float, default=25.0, help="seconds beside the peers")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results/bench_tuning")
    return parser.parse_args()


def listed(text: str) -> list[str]:
    return text.split(",")


def _line(row: dict) -> str:
    return (
        f"{row['name']:44} {row['default_us']:10.2f} us -> {row['tuned_us']:10.2f} us, "
        f"{row['gain']:.3f} ({row['noise']:.3f}), {row['trials']} trials, {row['seconds']:.0f} s"
    )


def _changed(rows: list[dict]) -> list[dict]:
    """Return those whose decisions are not the default's."""
    return [row for row in rows if not row["is_default"]]


def _summary(rows: list[dict]) -> str:
    gains = [row["gain"] for row in _changed(rows)]
    kept = len(rows) - len(gains)
    mean = geometric_mean([*gains, *[1.0] * kept])
    lowest = f"the lowest {min(gains):.3f}" if gains else "none"
    return (
        f"{len(rows)} kernels: {mean:.3f} in the mean; {kept} keep their default and count as 1; "
        f"of the others {lowest}"
    )


def _best_peer(model: dict) -> str:
    """Return what the fastest peer takes over what ours does, or nothing if none was timed."""
    peers = {name: us for name, us in model["us"].items() if name != OURS}
    if OURS not in model["us"]:
        return f"ours: {model['untimed'][OURS]}"
    if not peers:
        return ""
    best = min(peers, key=peers.__getitem__)
    return f"{peers[best] / model['us'][OURS]:.3f} ({best})"


def _render(record: dict) -> str:
    lines = [
        "# Kernels tuned, beside their defaults",
        "",
        f"`{record['command']}` at {record['commit']}, {record['mcpu']}. Gain: the default's",
        f"time over the tuned one's, interleaved, the median of {PROCESSES} processes that took no",
        "part in the search. Spread: half the distance of its quartiles in one. A kernel that",
        "keeps its default is timed beside itself: how far it is from 1 is the measurement's.",
        "",
        "| kernel | default us | tuned us | gain | spread | trials | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        gain = f"{row['gain']:.3f}{' (default)' if row['is_default'] else ''}"
        lines.append(
            f"| {row['name']} | {row['default_us']:.2f} | {row['tuned_us']:.2f} | "
            f"{gain} | {row['noise']:.3f} | {row['trials']} | {row['seconds']:.0f} |"
        )
    lines += [
        "",
        _summary(record["rows"]),
        "",
        "Whole models of them compiled by the log, and the peers, interleaved: what the best peer",
        "takes over what ours does.",
        "",
        "| kernel | tuned us | best peer |",
        "|---|--:|---|",
    ]
    for model in record["models"]:
        ours = f"{model['us'][OURS]:.2f}" if OURS in model["us"] else "-"
        lines.append(f"| {model['name']} | {ours} | {_best_peer(model)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    raise SystemExit(main())
