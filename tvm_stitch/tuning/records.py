"""What is measured, as a log keeps it."""

from __future__ import annotations

import time
import uuid
from typing import Any

from tir_schedules.decisions import DecisionsError, from_json, to_json
from tir_schedules.tuning.candidates import Candidates
from tir_schedules.tuning.features import features
from tvm_stitch.tuning.measure.outcome import Outcome

from .log import DeviceKey, Trial, Workload
from .log.checks import MOST_LINE
from .model import rows


def workload_record(candidates: Candidates) -> Workload:
    """Return a kernel as a log keeps it."""
    found = candidates.workload
    return Workload(found.key, found.structure, found.text)


def features_of(candidates: Candidates, decisions: Any) -> rows.Row:
    """Return what a model learns from of decisions that have a plan."""
    plans = (candidates.plan(each) for each in (decisions, candidates.default))
    return rows.row_of(*(features(plan, candidates.device) for plan in plans))


def decisions_of(candidates: Candidates, found: Trial) -> Any:
    """Return what a trial decided, None if it is not of the kernel's space as it is here."""
    try:
        decisions = from_json(type(candidates.default), found.decisions)
    except DecisionsError:
        return None
    return None if candidates.space_of(decisions) is None else decisions


def carried_of(candidates: Candidates, found: Trial) -> Any:
    """Return what a trial of another kernel decided, as far as it can be decided of this one.

    None if nothing of it can.
    """
    try:
        return candidates.carried(from_json(type(candidates.default), found.decisions))
    except DecisionsError:
        return None


def trial(
    candidates: Candidates, device: DeviceKey, outcome: Outcome, row: rows.Row | None
) -> Trial:
    """Return an outcome as a log keeps it, with the features that its plan has."""
    error = None if outcome.error is None else _line(outcome.error)
    return Trial(
        uid=uuid.uuid4().hex,
        workload=candidates.workload.key,
        device=device.key,
        decisions=to_json(outcome.decisions),
        features=None if row is None else rows.to_json(row),
        ns=outcome.ns,
        default_ns=outcome.default_ns,
        noise=outcome.noise,
        runs=outcome.runs,
        error=error,
        created=time.time(),
    )


def _line(error: str) -> str:
    text = "".join(c if c.isprintable() else " " for c in error).strip()
    return text[:MOST_LINE] or "it failed and did not say why"
