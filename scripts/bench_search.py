"""How many candidates the search measures until it has the best: by XGBoost, and at random.

Each decision is measured once and remembered, so that all searches of a kernel see the same times.
Of many that are timed shortly the luckiest leads: those that lead are timed again for longer, in
two libraries, and the worse of both is what they gain when it is counted who found the best known.
Of 48 such gains the best is still a lucky one: the few best are timed in libraries of their own
once more, and what those show alone is their gain.

python scripts/bench_search.py                    # docs/results/bench_search.{json,md}
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

from bench_tuning import kernels, listed
from git_state import described_commit
from idle_machine import require_idle

from tvm_stitch import targets
from tvm_stitch.build import Request
from tvm_stitch.profiling.calibration.meeting import POLICY as MEETING
from tvm_stitch.tuning.kernel_tuner import KernelTuner
from tvm_stitch.tuning.log import Log
from tvm_stitch.tuning.log.fingerprint import device_key
from tvm_stitch.tuning.measure.crew import Crew
from tvm_stitch.tuning.measure.outcome import Outcome, Pace
from tvm_stitch.tuning.measure.subject import KernelSubject
from tvm_stitch.tuning.model.gains import GainModel
from tvm_stitch.tuning.model.training import samples_of, trained
from tvm_stitch.tuning.policy import POLICY
from tvm_stitch.tuning.records import trial, workload_record
from tvm_stitch.tuning.tasks import Task, Tasks, tasks_of

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("residual_layernorm cache", "groupnorm cache", "product 17x19x23")
WARM_FROM = (
    *("softmax cache", "layernorm cache", "rmsnorm cache", "residual_layernorm cache"),
    *("groupnorm cache", "gru_cell cache", "product 256x256x256", "product 127x131x137"),
)
ENOUGH = 0.98  # of the best known gain
BATCH = POLICY.session.batch
PACE = Pace(rounds=9, slice_ns=2_000_000)
SURE = Pace(rounds=15, slice_ns=4_000_000)
LEADING = 48  # of all that were measured, timed again
FIRST = 12  # of those, timed once more
LIBRARIES = 5  # that these are built in


class Remembering:
    """A crew that measures each decision of a kernel once."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.known: dict[Any, Outcome] = {}

    @property
    def usual_ns(self) -> float:
        return self._crew.usual_ns

    def take(self, task: Task) -> None:
        self._crew.take(KernelSubject(task.candidates), 1)
        self.known = {}

    def measure(self, decisions: list[Any], anew: Container[Any] = ()) -> list[Outcome]:
        """Return what is known of decisions, of those `anew` what they take now."""
        new = [each for each in decisions if each not in self.known]
        for start in range(0, len(new), BATCH):
            for outcome in self._crew.measure(new[start : start + BATCH], PACE):
                self.known[outcome.decisions] = outcome
        again = [each for each in decisions if each in anew]
        timed = dict(zip(again, self._crew.measure(again, PACE) if again else (), strict=True))
        return [timed.get(each, self.known[each]) for each in decisions]

    def sure(self, default: Any) -> dict[Any, float]:
        """Return the gains of those that lead, each the worse of two libraries, and of the default.

        That is 1: where nothing is much faster each search has it with its first candidate.
        """
        order = sorted(self.known, key=lambda each: self.known[each].gain, reverse=True)
        found: dict[Any, float] = {}
        for start in range(0, LEADING, BATCH):
            batch = order[start : start + BATCH]
            first, again = (self._crew.measure(each, SURE) for each in (batch, batch[::-1]))
            found |= {
                o.decisions: min(o.gain, a.gain) for o, a in zip(first, again[::-1], strict=True)
            }
        leaders = sorted(found, key=found.__getitem__, reverse=True)[:FIRST]
        gains: dict[Any, list[float]] = {each: [] for each in leaders}
        for shift in range(LIBRARIES):
            for outcome in self._crew.measure(leaders[shift:] + leaders[:shift], SURE):
                gains[outcome.decisions].append(outcome.gain)
        found |= {each: statistics.median(seen) for each, seen in gains.items()}
        return found | {default: 1.0}


def by_model(
    task: Task, found: Tasks, crew: Remembering, model: GainModel, seed: int, most: int
) -> Iterator[list[Outcome]]:
    """Yield the batches of our search, without its last look at the best."""
    tuner, count, tried = KernelTuner(task, found.target, model, seed, BATCH), 0, set()
    while count < most and (batch := tuner.next()) and tuner.stage != "confirm":
        outcomes = crew.measure(batch, anew=tried)
        tuner.hear(outcomes)
        tried.update(batch)
        count += len(batch)
        yield outcomes


def at_random(task: Task, crew: Remembering, seed: int, most: int) -> Iterator[list[Outcome]]:
    """Yield batches of decisions that are drawn from the space, none twice; the default first."""
    rng, made = random.Random(seed), task.candidates
    seen, batch = {made.default}, [made.default]
    while len(seen) < most:
        drawn = made.space.sample(rng)
        if drawn not in seen and not isinstance(made.plan(drawn), str):
            seen.add(drawn)
            batch.append(drawn)
        if len(batch) == BATCH:
            yield crew.measure(batch)
            batch = []


def until(tried: list[Any], sure: dict[Any, float]) -> int | None:
    """Return how many candidates it took to reach enough of the best gain, None if it did not."""
    enough = ENOUGH * max(sure.values())
    return next((n for n, each in enumerate(tried, 1) if sure.get(each, 0.0) >= enough), None)


def main() -> int:
    args = _arguments()
    require_idle()
    models = dict(kernels())
    first = tasks_of(Request(models[NAMES[0]](), threads=args.threads))
    record = {"command": " ".join(["python scripts/bench_search.py", *sys.argv[1:]])}
    record |= {"commit": described_commit(), "mcpu": targets.machine().mcpu, "rows": []}
    with tempfile.TemporaryDirectory() as folder, Crew(first.target, args.threads, 2) as crew:
        remembering = Remembering(crew)
        warm = _warm(models, remembering, args, Path(folder))
        for name in args.names:
            record["rows"].append(_steady_row(name, models[name], remembering, warm, args))
            print(json.dumps(record["rows"][-1]), flush=True)
            args.output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
            args.output.with_suffix(".md").write_text(_render(record))
    return 0


def _warm(models: dict, crew: Remembering, args: argparse.Namespace, folder: Path) -> GainModel:
    """Return a model of other kernels than those that are searched."""
    with Log.open(folder / "warm.db", create=True) as log:
        for name in (each for each in WARM_FROM if each not in args.names):
            found = tasks_of(Request(models[name](), threads=args.threads))
            task, key = found.tasks[0], device_key(found.device)
            crew.take(task)
            tuner = KernelTuner(task, found.target, GainModel(), 1, BATCH)
            while len(crew.known) < args.warm and (batch := tuner.next()):
                outcomes = crew.measure(batch, anew={*crew.known})
                tuner.hear(outcomes)
                made = [
                    trial(task.candidates, key, o, None if o.ns is None else tuner.row(o.decisions))
                    for o in outcomes
                ]
                log.append([workload_record(task.candidates)], [key], made)
        return trained(samples_of(log.trials(), log.name), 1)


def _steady_row(name: str, model, crew: Remembering, *others: Any) -> dict:
    """Return the row of a kernel in whose searches threads did not move apart, or together."""
    while True:
        before = crew.usual_ns
        row = _row(name, model, crew, *others)
        if not MEETING.is_moved(crew.usual_ns, before):
            return row


def _row(name: str, model, crew: Remembering, warm: GainModel, args: argparse.Namespace) -> dict:
    found = tasks_of(Request(model(), threads=args.threads))
    task = max(found.tasks, key=lambda each: len(each.candidates.space.variants))
    crew.take(task)
    ways: dict[str, list[list[Any]]] = {"random": [], "xgboost": [], "warm": []}
    for seed in range(args.seeds):
        runs = {
            "xgboost": by_model(task, found, crew, GainModel(), seed + 1, args.most),
            "warm": by_model(task, found, crew, warm, seed + 1, args.most),
            "random": at_random(task, crew, seed + 1, args.most),
        }
        for way, batches in runs.items():
            ways[way].append([each.decisions for batch in batches for each in batch])
    sure = crew.sure(task.candidates.default)
    row: dict[str, Any] = {"name": name, "best_gain": max(sure.values()), "known": len(crew.known)}
    for way, tried in ways.items():
        counts = [until(each, sure) for each in tried]
        row[way] = statistics.median(args.most if n is None else n for n in counts)
        row[f"{way}_never"] = counts.count(None)
    return row


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--names", type=listed, default=list(NAMES), metavar="A,B")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--most", type=int, default=320, help="candidates of a search")
    parser.add_argument("--warm", type=int, default=120, help="candidates of a kernel it learns of")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results/bench_search")
    return parser.parse_args()


def _render(record: dict) -> str:
    lines = [
        "# Candidates until 98 % of the best known",
        "",
        f"`{record['command']}` at {record['commit']}, {record['mcpu']}. Medians of the seeds; in",
        f"brackets, how many of them never had it. The best gain is of {LEADING} that are timed",
        f"again, the first {FIRST} of them in {LIBRARIES} libraries more.",
        "",
        "| kernel | best gain | measured in all | random | XGBoost | warm |",
        "|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        ways = (f"{row[way]:.0f} ({row[f'{way}_never']})" for way in ("random", "xgboost", "warm"))
        lines.append(
            f"| {row['name']} | {row['best_gain']:.3f} | {row['known']} | {' | '.join(ways)} |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    raise SystemExit(main())
