"""A log's trials of a model as MetaSchedule's JSON database, and back.

The workloads of such a database are matched by TVM's structural hash with the kernels of a model
that is at hand: they are never loaded. Of a trace only what our design space writes is understood.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tvm_ffi
from tvm.s_tir import meta_schedule as ms

from tir_schedules.decisions import DecisionsError
from tir_schedules.tuning.candidates import Candidates
from tir_schedules.tuning.design_space import read_annotations
from tir_schedules.tuning.metaschedule_source import (
    ANNOTATE,
    SAMPLE,
    annotated,
    workload_module,
)

from ..errors import StitchError
from .log import Log, Trial
from .log.fingerprint import device_key
from .measure.outcome import Outcome
from .records import decisions_of, features_of, trial, workload_record
from .tasks import Tasks

_WORKLOADS, _RECORDS = "database_workload.json", "database_tuning_record.json"
_REMEDY = "give a folder that MetaSchedule's JSONDatabase or `log export --tvm` wrote"
_NS = 1e9


def export_tvm(log: Log, tasks: Tasks, folder: Path) -> int:
    """Write what a log has of a model's kernels on its device; return how many records.

    Times are as gains over one time of the default. Raises: StitchError if the folder is there.
    """
    if folder.exists():
        raise StitchError(folder, "exists already", "name a folder that does not")
    if not folder.parent.is_dir():
        raise StitchError(folder, "is in no folder", "make that first")
    made, count = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".tvm-stitch-")), 0
    try:
        database = ms.database.JSONDatabase(work_dir=str(made))
        key = device_key(tasks.device)
        for task in tasks.tasks:
            workload = database.commit_workload(workload_module(task.candidates.func))
            trials = [t for t in log.trials(task.candidates.workload.key, key.key) if t.ns]
            usual = statistics.median(t.default_ns for t in trials) if trials else 0.0
            for each in trials:
                decisions = decisions_of(task.candidates, each)
                if decisions is not None:
                    schedule = task.candidates.schedule(decisions)
                    seconds = [each.ns / each.default_ns * usual / _NS]
                    record = ms.database.TuningRecord(
                        schedule.trace, workload, seconds, tasks.target
                    )
                    database.commit_tuning_record(record)
                    count += 1
        os.rename(made, folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return count


@dataclass(frozen=True)
class _Record:
    """A line of a database: its workload by hash, decisions as they were annotated, seconds."""

    shash: str
    annotations: dict[str, Any]
    seconds: float
    target: dict[str, Any]


def import_tvm(log: Log, tasks: Tasks, folder: Path) -> int:
    """Add the records of a model's kernels for its device; return how many trials were new.

    Records of other kernels, of another target, and of kernels whose default was not measured are
    left out: nothing tells what they gain. Raises: StitchError if the folder holds no database.
    """
    kernels = {_hash(task.candidates): task.candidates for task in tasks.tasks}
    target, found = _plain(tasks.target.export()), defaultdict(dict)
    for record in _records(folder):
        candidates = kernels.get(record.shash)
        if candidates is None or record.target != target:
            continue
        try:
            decisions = read_annotations(type(candidates.default), record.annotations)
        except DecisionsError as error:
            raise StitchError(folder, f"a record has no decisions ({error})", _REMEDY) from None
        if candidates.space_of(decisions) is not None:
            times = found[record.shash]
            times[decisions] = min(record.seconds, times.get(decisions, record.seconds))
    trials, workloads, key = [], [], device_key(tasks.device)
    for shash, times in found.items():
        candidates = kernels[shash]
        usual = times.get(candidates.default)
        if usual is None:
            continue
        workloads.append(workload_record(candidates))
        for decisions, seconds in times.items():
            if not isinstance(candidates.plan(decisions), str):
                outcome = Outcome(decisions, seconds * _NS, usual * _NS, None, 1)
                trials.append(_trial(candidates, key, outcome))
    return log.append(workloads, [key], trials)


def _trial(candidates: Candidates, key: Any, outcome: Outcome) -> Trial:
    """Return a trial whose uid follows from what it says: imported twice it is there once."""
    made = trial(candidates, key, outcome, features_of(candidates, outcome.decisions))
    said = (made.workload, made.device, made.decisions, made.ns, made.default_ns)
    uid = hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32]
    return replace(made, uid=uid, created=float(int(time.time())))


def _hash(candidates: Candidates) -> str:
    # The database writes it unsigned.
    return str(tvm_ffi.structural_hash(workload_module(candidates.func)) % (1 << 64))


def _records(folder: Path) -> Iterator[_Record]:
    hashes = [line[0] for line in _lines(folder / _WORKLOADS)]
    for number, line in enumerate(_lines(folder / _RECORDS), 1):
        try:
            place, (trace, seconds, target, _arguments) = line
            if not seconds or target is None:
                continue
            yield _Record(
                hashes[place],
                _annotations(*trace),
                statistics.median(_positive(each) for each in seconds),
                target,
            )
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            given = f"{folder / _RECORDS}, line {number}"
            raise StitchError(given, f"is no record ({error})", _REMEDY) from None


def _lines(path: Path) -> Iterator[list]:
    try:
        with path.open() as file:
            for number, text in enumerate(file, 1):
                line = json.loads(text)
                if not isinstance(line, list) or not line:
                    raise ValueError(f"line {number} is no list")
                yield line
    except OSError as error:
        raise StitchError(path, error.strerror or str(error), _REMEDY) from None
    except (ValueError, RecursionError) as error:
        raise StitchError(path, f"is no database ({error})", _REMEDY) from None


def _annotations(instructions: list, decisions: list) -> dict[str, Any]:
    """Return what a trace annotates, each sampled value as it was decided."""
    return annotated(_steps(instructions, {int(place): value for place, value in decisions}))


def _steps(instructions: list, decided: Mapping[int, Any]) -> Iterator[tuple[str, Any, Any]]:
    for place, (kind, inputs, attributes, outputs) in enumerate(instructions):
        if kind == SAMPLE:
            yield kind, outputs[0], decided[place]
        elif kind == ANNOTATE:
            (key,), value = attributes, inputs[1]
            # A variable, or a text in quotes with nothing escaped in it.
            yield kind, key, value[1:-1] if value.startswith('"') else value
        else:
            yield kind, None, None


def _positive(seconds: Any) -> float:
    if not isinstance(seconds, float) or not 0 < seconds < 1e6:
        raise ValueError(f"{seconds!r} is no time")
    return seconds


def _plain(part: Any) -> Any:
    """Return a target's description as JSON has it."""
    if isinstance(part, str | int | float | bool):
        return part
    if hasattr(part, "items"):
        return {str(key): _plain(value) for key, value in part.items()}
    return [_plain(each) for each in part]
