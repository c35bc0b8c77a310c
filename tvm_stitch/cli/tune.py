"""Find decisions for a model's kernels that are faster here, and keep all trials in a log."""

from __future__ import annotations

import argparse
import secrets
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tir_schedules.device import Device
from tvm_stitch.build import Request
from tvm_stitch.cli.options import add_compile_options, compile_options, parse_count, parse_seconds
from tvm_stitch.errors import StitchError
from tvm_stitch.tuning.log import Log
from tvm_stitch.tuning.measure.crew import Crew
from tvm_stitch.tuning.model.training import Samples, samples_of, trained
from tvm_stitch.tuning.records import device_key
from tvm_stitch.tuning.session import Budget, Session
from tvm_stitch.tuning.table import describe, render
from tvm_stitch.tuning.tasks import tasks_of

_BUDGET_S = 300.0
_SPAN = 1000  # of the bar


def add_parser(commands) -> None:
    cmd = commands.add_parser("tune", help="search for faster kernels", description=__doc__)
    cmd.add_argument("model", type=Path, metavar="MODEL")
    cmd.add_argument("--trials", type=parse_count, metavar="N", help="stop after so many")
    cmd.add_argument(
        "--budget", type=parse_seconds, metavar="TIME", help="stop then, e.g. 90 or 5m; 5m"
    )
    cmd.add_argument("--seed", type=int, metavar="N", help="search as another run did")
    add_compile_options(cmd)
    cmd.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    if args.log is None:
        raise StitchError("tune", "it has no log to keep its trials in", "add --log FILE")
    options = {name: value for name, value in compile_options(args).items() if name != "log"}
    seconds = args.budget or (None if args.trials else _BUDGET_S)
    seed = secrets.randbits(31) if args.seed is None else args.seed
    with Log.open(args.log, create=True) as log:
        found = tasks_of(Request(args.model, **options))
        if not found.tasks:
            raise StitchError(args.model, "has no kernel of our templates", "compile it as it is")
        threads = found.device.threads
        print(f"{args.model}: {len(found.tasks)} kernels, {threads} threads, --seed {seed}")
        with Crew(found.target, threads, threads) as crew, _Bar(args.trials, seconds) as bar:
            model = trained(_samples(log, found.device), seed)
            session = Session(
                found.tasks, log, crew, found.target, found.device, model, seed, bar.show
            )
            session.run(Budget(args.trials, seconds))
        samples = _samples(log, found.device)
    print(render(session))
    print(describe(samples, seed))


def _samples(log: Log, device: Device) -> Samples:
    try:
        return samples_of(log.trials(device=device_key(device).key))
    except ValueError as error:
        remedy = "delete that trial, or use another log"
        raise StitchError(log.name, f"a trial has no features ({error})", remedy) from None


class _Bar:
    """Progress to the end of the budget, with the best so far."""

    def __init__(self, trials: int | None, seconds: float | None) -> None:
        columns = (BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        told = TextColumn("{task.description}")
        self._progress = Progress(*columns, told, console=Console(stderr=True))
        self._trials, self._seconds = trials, seconds
        self._bar = self._progress.add_task("", total=_SPAN)

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._progress.stop()

    def show(self, session: Session) -> None:
        gain = session.default_ns / session.ns
        elapsed = self._progress.tasks[0].elapsed or 0.0
        spent = [0.0]
        spent += [session.trials / self._trials] if self._trials else []
        spent += [elapsed / self._seconds] if self._seconds else []
        told = f"{session.trials} trials, kernels {gain:.3f} times as fast"
        self._progress.update(self._bar, completed=_SPAN * min(1.0, max(spent)), description=told)
