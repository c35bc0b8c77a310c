"""Tune the whole models of the zoo, then time them by the log beside their defaults and peers.

    python scripts/bench_tuned_models.py     # writes docs/results/bench_tuned_models.{json,md}
    python scripts/bench_tuned_models.py --names bert --budget 120

Each model is tuned into one log, in turn, so that a later one starts from what others told.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from statistics import median

import numpy as np
import onnx
import zoo
from bench_compile import MODELS
from bench_models import PACE
from git_state import described_commit
from idle_machine import require_idle
from tvm_ffi import structural_equal

import tvm_stitch
from tvm_stitch import targets
from tvm_stitch.build import Request, lower
from tvm_stitch.profiling.harness import Crew, compare
from tvm_stitch.profiling.peer import OURS, Job
from tvm_stitch.profiling.stats import geometric_mean
from tvm_stitch.tuning.session import Session
from tvm_stitch.tuning.tune import Asked, tune

ROOT = Path(__file__).resolve().parents[1]
PROCESSES = 3  # that time each anew: the same model beside itself makes 1 % in one
TUNED, PEERS = "stitch-file", ("onnxruntime", "openvino")


def main() -> int:
    """Return 1 if a model is slower than by its defaults."""
    args = _arguments()
    require_idle()
    record = {"command": " ".join(["python scripts/bench_tuned_models.py", *sys.argv[1:]])}
    record |= {"commit": described_commit(), "mcpu": targets.machine().mcpu}
    record |= {"threads": args.threads, "load_before": os.getloadavg()[0], "rows": []}
    with tempfile.TemporaryDirectory() as folder:
        log = args.log or f"{folder}/tuning.db"
        for name in args.names:
            record["rows"].append(_row(name, log, args))
            args.output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
            print(" | ".join(_cells(record["rows"][-1])), flush=True)
    args.output.with_suffix(".md").write_text(render(record))
    return int(any(_over_default(row) < 1.0 for row in record["rows"]))


def _row(name: str, log: str, args: argparse.Namespace) -> dict:
    model = zoo.model(name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        onnx.save(model, path)
        start, last = time.monotonic(), []
        asked = Asked(path, {"threads": args.threads}, log, None, args.budget, args.seed)
        print(tune(asked, last.append), file=sys.stderr)
        sessions = [each for each in last if isinstance(each, Session)]
        spent, session = time.monotonic() - start, sessions[-1] if sessions else None
        how, usual = _compiled(path, log, args.threads), _is_default(path, log, args.threads)
        runs = [_beside(path, zoo.random_inputs(model), args) for _ in range(PROCESSES)]
    ratios = [_ratios(times) for times, _ in runs]
    return {
        "name": name,
        "ms": {peer: median(times[peer] for times, _ in runs) for peer in runs[0][0]},
        **{which: median(each[which] for each in ratios) for which in ratios[0]},
        "runs": [times for times, _ in runs],
        "apart": max(apart for _, apart in runs),
        "decided": how,
        "is_default": usual,
        "trials": _trials(session),
        "seconds": spent,
    }


def _beside(
    path: Path, inputs: dict[str, np.ndarray], args: argparse.Namespace
) -> tuple[dict[str, float], float]:
    """Return the medians in ms of a model by its log, its defaults and the peers, in one run.

    And how far results are apart at most.
    """
    with Crew(args.threads) as crew:
        job = Job(path, crew.workdir, args.threads)
        rows = compare(crew, job, inputs, [OURS, TUNED, *PEERS], args.timing, pace=PACE)
    times = {row.peer: row.timing.median_us / 1e3 for row in rows if row.timing}
    return times, max(row.apart or 0.0 for row in rows)


def _ratios(times: Mapping[str, float]) -> dict[str, float]:
    best = min(ms for peer, ms in times.items() if peer in PEERS)
    return {
        "over_default": times[OURS] / times[TUNED],
        "over_best_peer": best / times[TUNED],
        "default_over_best_peer": best / times[OURS],
    }


def _compiled(path: Path, log: str, threads: int) -> dict[str, int]:
    """Compile a model by a log beside its file; return how many of its calls were decided how."""
    model = tvm_stitch.compile(path, threads=threads, log=log)
    model.export(path.with_suffix(".so"))
    return Counter(each.decided.partition(",")[0] or "no say" for each in model.report.groups)


def _is_default(path: Path, log: str, threads: int) -> bool:
    """Return whether a model by a log is the same module as without."""
    by_log, usual = (lower(Request(path, threads=threads, log=given)) for given in (log, None))
    return structural_equal(by_log.mod, usual.mod)


def _over_default(row: dict) -> float:
    return 1.0 if row["is_default"] else row["over_default"]


def _trials(session: Session | None) -> int:
    return 0 if session is None else session.trials


def render(record: dict) -> str:
    """Return the record as Markdown."""
    columns = ("over_best_peer", "default_over_best_peer", "over_default")
    rows = [row | {"over_default": _over_default(row)} for row in record["rows"]]
    means = [geometric_mean([row[c] for row in rows]) for c in columns]
    lowest = [min(row[c] for row in rows) for c in columns]
    lines = [
        "# Whole models, tuned",
        "",
        f"`{record['command']}` at {record['commit']}, {record['mcpu']}, {record['threads']} "
        "threads, batch 1, float32; medians of interleaved turns in milliseconds, of "
        f"{PROCESSES} runs in new processes. Ratios are the other's time over ours in one run. A "
        "model that is the same module as by default is beside itself, and counts as 1.",
        "",
        "| model | tuned | default | onnxruntime | openvino | best peer / tuned | "
        "best peer / default | default / tuned | trials | seconds |",
        "|---|" + "--:|" * 9,
        *(f"| {' | '.join(_cells(row))} |" for row in record["rows"]),
        "",
        *(
            f"{column}: {mean:.3f} in the mean, lowest {least:.3f}  "
            for column, mean, least in zip(columns, means, lowest, strict=True)
        ),
    ]
    return "\n".join(lines) + "\n"


def _cells(row: dict) -> list[str]:
    times = [f"{row['ms'].get(peer, float('nan')):.3f}" for peer in (TUNED, OURS, *PEERS)]
    ratios = [f"{row[c]:.3f}" for c in ("over_best_peer", "default_over_best_peer", "over_default")]
    ratios[-1] += " (default)" if row["is_default"] else ""
    return [row["name"], *times, *ratios, str(row["trials"]), f"{row['seconds']:.0f}"]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--names", type=_listed, default=list(MODELS), metavar="A,B")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--budget", type=float, default=600.0, help="seconds to tune a model")
    parser.add_argument("--timing", type=float, default=200.0, help="seconds to time it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", metavar="LOG", help="tune into it")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results/bench_tuned_models")
    return parser.parse_args()


def _listed(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    raise SystemExit(main())
