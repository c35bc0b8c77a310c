"""Kill a tuner at random moments, over and over; the log must be whole, and the end as good.

python scripts/check_tuning_kills.py              # 20 kills; docs/results/check_tuning_kills.json

A tuner that ended by itself before its moment came is no kill: another takes its place, of another
seed, which goes on in the same log.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
from bench_foreign_profile import LIBRARIES
from bench_reuse import decided_by
from bench_tuning import FRESH, PROCESSES, kernels
from git_state import described_commit

from tvm_stitch.build import Request
from tvm_stitch.tuning.log import Log
from tvm_stitch.tuning.log.fingerprint import device_key
from tvm_stitch.tuning.measure.crew import Crew
from tvm_stitch.tuning.measure.subject import KernelSubject
from tvm_stitch.tuning.policy import POLICY
from tvm_stitch.tuning.tasks import tasks_of

ROOT = Path(__file__).resolve().parents[1]
# Says how many trials of kernels it has put into the log, once they are there.
TUNER = """
import sys
from tvm_stitch.tuning.session import Session
from tvm_stitch.tuning.tune import Asked, tune
def told(session):
    if isinstance(session, Session):
        print("trials", session.trials, flush=True)
model, log, trials, seed = sys.argv[1:]
asked = Asked(model, {"threads": 2}, log, int(trials), None, int(seed))
print(tune(asked, told), flush=True)
"""


def main() -> int:
    """Return 1 if a log is damaged, more than a batch is lost, or the end is worse."""
    args = _arguments()
    rng, wrong = random.Random(args.seed), []
    with tempfile.TemporaryDirectory() as folder:
        model, log = Path(folder) / "model.onnx", Path(folder) / "killed.db"
        onnx.save(dict(kernels())[args.kernel](), model)
        number = ended = 0
        while number < args.kills:
            before, seed = _count(log), number + ended
            told, lived = _killed(model, log, seed, rng.uniform(0.0, args.most_seconds))
            after = _count(log)
            number, ended = number + lived, ended + (not lived)
            which = f"kill {number}" if lived else "ended by itself"
            print(f"{which}: {before} trials, {told} told of, {after} now", flush=True)
            if (integrity := _integrity(log)) != "ok":
                wrong.append(f"kill {number}: {integrity}")
            batch = POLICY.session.batch + POLICY.kernel.again
            if not before + told <= after <= before + told + batch:
                wrong.append(f"kill {number}: {after} trials of {before} and {told}")
        resumed, whole = _gains(model, (log, Path(folder) / "whole.db"), args)
    if resumed < args.as_good * whole:
        wrong.append(f"resumed: {resumed:.3f} times as fast, in one run {whole:.3f}")
    record = {"command": " ".join(["python scripts/check_tuning_kills.py", *sys.argv[1:]])}
    record |= {"commit": described_commit(), "kernel": args.kernel, "kills": args.kills}
    record |= {
        "ended": ended,
        "seed": args.seed,
        "resumed": resumed,
        "whole": whole,
        "wrong": wrong,
    }
    args.output.write_text(json.dumps(record, indent=1) + "\n")
    print(
        *wrong or [f"{args.kills} kills: resumed {resumed:.3f}, in one run {whole:.3f}"], sep="\n"
    )
    return int(bool(wrong))


def _command(model: Path, log: Path, trials: int, seed: int) -> list[str]:
    return [sys.executable, "-c", TUNER, str(model), str(log), str(trials), str(seed)]


def _killed(model: Path, log: Path, seed: int, seconds: float) -> tuple[int, bool]:
    """Kill a tuner seconds behind its first trials; return how many it told of, and if it lived.

    Most of what comes before them is the import of TVM.
    """
    command = _command(model, log, 10_000, seed)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as tuner:
        told = [tuner.stdout.readline()]
        time.sleep(seconds)
        lived = tuner.poll() is None
        tuner.send_signal(signal.SIGKILL)
        told += tuner.stdout.readlines()
    counts = [int(line.split()[1]) for line in told if line.startswith("trials ")]
    return (counts or [0])[-1], lived  # a session that begins anew counts from 0


def _count(log: Path) -> int:
    if not log.exists():
        return 0
    with Log.open(log) as opened:
        return sum(1 for _ in opened.trials())


def _integrity(log: Path) -> str:
    with contextlib.closing(sqlite3.connect(log)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchone()[0]


def _gains(model: Path, logs: Sequence[Path], args: argparse.Namespace) -> list[float]:
    """Return the gains of what logs decide once a tuner has ended by itself, timed side by side."""
    found = tasks_of(Request(str(model), threads=2))
    made, key, decided = found.tasks[0].candidates, device_key(found.device).key, []
    for log in logs:
        command = _command(model, log, args.trials, args.seed)
        subprocess.run(command, check=True, capture_output=True)
        with Log.open(log) as opened:
            decided.append(decided_by(opened, made, key))
    gains: dict[Any, list[float]] = {each: [] for each in decided}
    for number in range(PROCESSES):
        with Crew(found.target, 2, 1) as crew:
            crew.take(KernelSubject(made), args.seed + 1 + number)
            for _ in range(LIBRARIES):
                for outcome in crew.measure([*gains], FRESH):
                    gains[outcome.decisions].append(outcome.gain)
    return [statistics.median(gains[each]) for each in decided]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kernel", default="masked_softmax cache", help="of bench_tuning")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--most-seconds", type=float, default=8.0)
    parser.add_argument("--trials", type=int, default=160, help="of the runs that are not killed")
    parser.add_argument("--as-good", type=float, default=0.98)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--output", type=Path, default=ROOT / "docs/results/check_tuning_kills.json"
    )
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
