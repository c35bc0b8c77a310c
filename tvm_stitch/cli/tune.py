"""Find decisions for a model's kernels that are faster here, and keep all trials in a log."""

from __future__ import annotations

import argparse
import importlib.util
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tvm_stitch.cli.options import (
    add_compile_options,
    add_tracker,
    compile_options,
    parse_count,
    parse_seconds,
)
from tvm_stitch.errors import StitchError

if TYPE_CHECKING:
    from tvm_stitch.tuning.forms.form_session import FormSession
    from tvm_stitch.tuning.plans.plan_session import PlanSession
    from tvm_stitch.tuning.session import Session
    from tvm_stitch.tuning.whole.whole_session import WholeSession

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
    add_tracker(cmd, required=False, told="measure on the machines of a TVM RPC tracker")
    add_compile_options(cmd)
    cmd.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    if args.log is None:
        raise StitchError("tune", "it has no log to keep its trials in", "add --log FILE")
    if importlib.util.find_spec("xgboost") is None:
        remedy = "pip install 'tvm-stitch[tune]'"
        raise StitchError("tune", "XGBoost, which ranks candidates, is not installed", remedy)
    if (args.tracker is None) != (args.key is None):
        given, other = ("--tracker", "--key") if args.key is None else ("--key", "--tracker")
        raise StitchError(given, f"says nothing without {other}", "give both, or neither")
    from tvm_stitch.tuning.measure.rpc_machine import Tracker
    from tvm_stitch.tuning.tune import Asked, tune

    options = {name: value for name, value in compile_options(args).items() if name != "log"}
    seconds = args.budget or (None if args.trials else _BUDGET_S)
    seed = secrets.randbits(31) if args.seed is None else args.seed
    tracker = None if args.tracker is None else Tracker(args.tracker, args.key)
    asked = Asked(args.model, options, args.log, args.trials, seconds, seed, tracker)
    with _Bar(args.trials, seconds) as bar:
        told = tune(asked, bar.show)
    print(told)


class _Bar:
    """Progress to the end of the budget, with the best so far."""

    def __init__(self, trials: int | None, seconds: float | None) -> None:
        columns = (BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        told = TextColumn("{task.description}")
        self._progress = Progress(*columns, told, console=Console(stderr=True))
        self._trials, self._seconds = trials, seconds
        self._bar = self._progress.add_task("", total=_SPAN)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._progress.live.is_started:
            self._progress.stop()

    def show(self, session: Session | PlanSession | FormSession | WholeSession) -> None:
        self._progress.start()  # not before: what goes wrong until then is one line
        gain = session.default_ns / session.ns
        elapsed = self._progress.tasks[0].elapsed or 0.0
        spent = [0.0]
        spent += [session.trials / self._trials] if self._trials else []
        spent += [elapsed / self._seconds] if self._seconds else []
        told = f"{session.trials} trials, {gain:.3f} times as fast"
        self._progress.update(self._bar, completed=_SPAN * min(1.0, max(spent)), description=told)
