"""Look into a tuning log, exchange it, merge several, leave the best of it."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from tvm_stitch.cli.options import add_compile_options, compile_options, parse_count
from tvm_stitch.errors import StitchError
from tvm_stitch.runtime.artifact import check_writable
from tvm_stitch.tuning.log import Log, Trial, export_json, import_json

if TYPE_CHECKING:
    from tvm_stitch.tuning.tasks import Tasks

_TVM = "FILE is MetaSchedule's JSON database of this model's kernels, a folder"
_LOG = "a file, or postgresql://HOST/DATABASE"


def add_parser(commands) -> None:
    cmd = commands.add_parser("log", help="look into tuning logs", description=__doc__)
    actions = cmd.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, (summary, run) in _ACTIONS.items():
        action = actions.add_parser(name, help=summary, description=summary)
        action.add_argument("log", metavar="LOG", help=_LOG)
        if name in ("export", "import"):
            action.add_argument("file", type=Path, metavar="FILE")
            action.add_argument("--tvm", type=Path, metavar="MODEL", help=_TVM)
            add_compile_options(action, log=False)
        if name == "merge":
            action.add_argument("others", nargs="+", metavar="OTHER", help=_LOG)
        if name == "prune":
            action.add_argument("--keep", type=parse_count, default=10, metavar="N")
        action.set_defaults(run=run)


def _list(args: argparse.Namespace) -> None:
    with Log.open(args.log) as log:
        devices = {device.key: device for device in log.devices()}
        trials: dict[tuple[str, str], list[Trial]] = defaultdict(list)
        for trial in log.trials():
            trials[trial.device, trial.workload].append(trial)
        for key, device in devices.items():
            print(_described(device.text))
            kernels = {w: each for (d, w), each in trials.items() if d == key}
            print(f"  {'kernel':16} {'trials':>6} {'failed':>6} {'default us':>11} {'gain':>6}")
            for workload, found in kernels.items():
                print(f"  {_row(workload, found, log.best(workload, key))}")
        counts = log.counts()
    print(", ".join(f"{count} {name}" for name, count in counts.items()))


def _described(text: str) -> str:
    found = json.loads(text)
    head = f"{found.pop('mcpu', '?')}, {found.pop('threads', '?')} threads"
    if found.get("kind") == "cuda":
        head = f"cuda:{found.pop('arch', '?')}"
    return ", ".join([head, *(f"{name} {value}" for name, value in found.items())])


def _row(workload: str, trials: list[Trial], best: Trial | None) -> str:
    failed = sum(trial.error is not None for trial in trials)
    head = f"{workload[:16]} {len(trials):6} {failed:6}"
    if best is None:
        return head
    gain = max(1.0, best.default_ns / best.ns)
    return f"{head} {best.default_ns / 1e3:11.2f} {gain:6.3f}"


def _export(args: argparse.Namespace) -> None:
    with Log.open(args.log) as log:
        if args.tvm is not None:
            print(f"{_tvm().export_tvm(log, _tasks(args), args.file)} records")
            return
        check_writable(args.file)
        export_json(log, args.file)


def _import(args: argparse.Namespace) -> None:
    with Log.open(args.log, create=True) as log:
        if args.tvm is not None:
            print(f"{_tvm().import_tvm(log, _tasks(args), args.file)} new trials")
            return
        print(f"{import_json(log, args.file)} new trials")


def _tvm() -> ModuleType:
    """TVM takes seconds to import, and looking into a log needs none."""
    from tvm_stitch.tuning import tvm_database

    return tvm_database


def _tasks(args: argparse.Namespace) -> Tasks:
    from tvm_stitch.build import Request
    from tvm_stitch.tuning.tasks import tasks_of

    options = {name: value for name, value in compile_options(args).items() if name != "log"}
    return tasks_of(Request(args.tvm, **options))


def _merge(args: argparse.Namespace) -> None:
    with Log.open(args.log, create=True) as log:
        for name in args.others:
            if name == args.log:
                raise StitchError(name, "is the log itself", "name another to merge into it")
            with Log.open(name) as other:
                print(f"{log.merge(other)} new trials of {other.name}")


def _prune(args: argparse.Namespace) -> None:
    with Log.open(args.log) as log:
        print(f"{log.prune(args.keep)} trials removed")


_ACTIONS = {
    "list": ("the kernels of each device, and what they gained", _list),
    "export": ("write all of it as JSON lines", _export),
    "import": ("add what an export wrote", _import),
    "merge": ("add what other logs have", _merge),
    "prune": ("leave the best of each kernel", _prune),
}
