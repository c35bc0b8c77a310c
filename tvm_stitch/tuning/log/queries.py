"""What is asked of a log. Trials are ordered best first: by gain, then age, then uid.

The gain is over the default in the same rounds: another hour the machine is another. Those of many
runs come before all others: of hundreds that are timed shortly the luckiest leads.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Delete, Select, Table, delete, func, select

from .tables import CHOICES, TRIALS, WORKLOADS
from .trial import SURE

_MEASURED = TRIALS.c.ns.is_not(None)


def every(table: Table) -> Select:
    """Rows in an order that does not change: by age where they have one."""
    order = ("created", "uid") if "created" in table.c else ("key",)
    return select(table).order_by(*(table.c[name] for name in order))


def trials(workload: str | None, device: str | None) -> Select:
    query = every(TRIALS)
    if workload is not None:
        query = query.where(TRIALS.c.workload == workload)
    if device is not None:
        query = query.where(TRIALS.c.device == device)
    return query


def count(device: str) -> Select:
    return select(func.count()).where(TRIALS.c.device == device)


def learnable(device: str) -> Select:
    """How many trials of a device were measured and have features, and when the last was."""
    of_device = (TRIALS.c.device == device) & TRIALS.c.features.is_not(None)
    return select(func.count(), func.max(TRIALS.c.created)).where(of_device, _MEASURED)


def best(workload: str, device: str) -> Select:
    of_both = (TRIALS.c.workload == workload) & (TRIALS.c.device == device)
    return select(TRIALS).where(of_both, _MEASURED).order_by(*_best_first(TRIALS)).limit(1)


def near(structure: str, device: str) -> Select:
    """The best trial of each workload of a structure, by the workloads' keys."""
    place = func.row_number().over(partition_by=TRIALS.c.workload, order_by=_best_first(TRIALS))
    ranked = (
        select(TRIALS, place.label("place"))
        .join(WORKLOADS)
        .where(WORKLOADS.c.structure == structure, TRIALS.c.device == device, _MEASURED)
        .subquery()
    )
    columns = (ranked.c[column.name] for column in TRIALS.c)
    return select(*columns).where(ranked.c.place == 1).order_by(ranked.c.workload)


def prune(keep: int) -> Delete:
    """Delete all trials but the best `keep` of each workload and device."""
    pair = (TRIALS.c.workload, TRIALS.c.device)
    place = func.row_number().over(partition_by=pair, order_by=_best_first(TRIALS))
    ranked = select(TRIALS.c.uid, place.label("place")).where(_MEASURED).subquery()
    kept = select(ranked.c.uid).where(ranked.c.place <= keep)
    return delete(TRIALS).where(TRIALS.c.uid.not_in(kept))


def remove(uids: Sequence[str]) -> Delete:
    return delete(TRIALS).where(TRIALS.c.uid.in_(uids))


def choice(graph: str, device: str) -> Select:
    of_both = (CHOICES.c.graph == graph) & (CHOICES.c.device == device)
    return select(CHOICES).where(of_both).order_by(*_best_first(CHOICES)).limit(1)


def regrouped(device: str) -> Select:
    """How many choices of a device are other forms or groups than the usual."""
    of_device = (CHOICES.c.device == device) & (CHOICES.c.ns < CHOICES.c.default_ns)
    return select(func.count()).select_from(CHOICES).where(of_device)


def _best_first(table: Table) -> tuple:
    lucky = [table.c.runs < SURE] if "runs" in table.c else []
    return *lucky, table.c.ns / table.c.default_ns, table.c.created, table.c.uid
