"""A tuning log: what was measured, by workload and device."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain, groupby, islice
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Select, func, select

from ...errors import StitchError
from . import queries
from .database import Database
from .opening import open_database
from .references import References
from .tables import DEVICES, TABLES, WORKLOADS
from .trial import DeviceKey, PlanChoice, Record, Trial, Workload

R = TypeVar("R", Workload, DeviceKey, Trial, PlanChoice)
_ROWS = 100  # held at once: the largest have a megabyte


class Log:
    """Several processes may use one log at once; each call that adds or removes is a transaction.

    `path` is that of a file, None of another database.

    Every method raises StitchError where the database cannot be read or written, or holds a row
    that is no record.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.name = database.name
        self.path = database.path

    @classmethod
    def open(cls, where: str | Path, create: bool = False) -> Log:
        """Open a log: an SQLite file by its path or URL, or a PostgreSQL database by its URL.

        `create`: make it where there is none. Raises: StitchError if it is no log of this release.
        """
        return cls(open_database(where, create))

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def append(
        self,
        workloads: Iterable[Workload],
        devices: Iterable[DeviceKey],
        trials: Iterable[Trial],
    ) -> int:
        """Add what is not there yet by key or uid; return how many trials were new."""
        return self.add(chain(workloads, devices, trials))

    def add_choices(self, devices: Iterable[DeviceKey], choices: Iterable[PlanChoice]) -> None:
        self.add(chain(devices, choices))

    def merge(self, other: Log) -> int:
        """Add what another log has and this one has not; return how many trials were new."""
        return self.add(other.records())

    def add(self, records: Iterable[Record]) -> int:
        """Add what is not there yet; return how many trials were new.

        A trial comes after its workload and device, unless the log has them.
        """
        added = 0
        with self._database.writing() as connection:
            for kind, each in groupby(records, type):
                while rows := [asdict(record) for record in islice(each, _ROWS)]:
                    new = self._database.insert_new(connection, TABLES[kind], rows)
                    added += new if kind is Trial else 0
        return added

    def prune(self, keep: int) -> int:
        """Remove failed trials, and all but the best `keep` of each workload and device.

        Returns how many were removed. Raises: ValueError if `keep` is below 1.
        """
        if keep < 1:
            raise ValueError(f"keep is {keep}, not at least 1")
        with self._database.writing() as connection:
            return connection.execute(queries.prune(keep)).rowcount

    def remove(self, uids: Sequence[str]) -> None:
        """Remove trials by their uids."""
        with self._database.writing() as connection:
            for start in range(0, len(uids), _ROWS):
                connection.execute(queries.remove(uids[start : start + _ROWS]))

    def best(self, workload: str, device: str) -> Trial | None:
        """Return the trial of the largest gain; of equal ones the oldest."""
        return next(self._read(Trial, queries.best(workload, device)), None)

    def near(self, structure: str, device: str) -> list[Trial]:
        """Return the best trial of each workload of a structure, by the workloads' keys."""
        return list(self._read(Trial, queries.near(structure, device)))

    def choice(self, graph: str, device: str) -> PlanChoice | None:
        """Return the choice of the largest gain; of equal ones the oldest."""
        return next(self._read(PlanChoice, queries.choice(graph, device)), None)

    def regroups(self, device: str) -> bool:
        """Return whether a choice of a device is other forms or groups than the usual."""
        with self._database.reading() as connection:
            return connection.scalar(queries.regrouped(device)) > 0

    def workloads(self) -> Iterator[Workload]:
        return self._read(Workload, queries.every(WORKLOADS))

    def devices(self) -> Iterator[DeviceKey]:
        return self._read(DeviceKey, queries.every(DEVICES))

    def trials(self, workload: str | None = None, device: str | None = None) -> Iterator[Trial]:
        """Yield the trials, failed ones too, of a workload, a device or all; the oldest first."""
        return self._read(Trial, queries.trials(workload, device))

    def count(self, device: str) -> int:
        """Return how many trials there are of a device."""
        with self._database.reading() as connection:
            return connection.scalar(queries.count(device))

    def learnable(self, device: str) -> str:
        """Return a text that is another when what can be learned of a device is."""
        with self._database.reading() as connection:
            count, last = connection.execute(queries.learnable(device)).one()
        return f"{count} trials until {last!r}"

    def records(self) -> Iterator[Record]:
        """Yield all that the log holds at this moment, what others refer to before them."""
        references = References()
        with self._database.reading() as connection:
            for kind, table in TABLES.items():
                for record in self._rows(connection, kind, queries.every(table)):
                    try:
                        references.meet(record)
                    except ValueError as error:
                        raise self._refusal(record.uid, error) from None
                    yield record

    def counts(self) -> dict[str, int]:
        """Return how many workloads, devices, trials and choices there are, by these names."""
        with self._database.reading() as connection:
            return {
                table.name.removeprefix("stitch_"): connection.scalar(
                    select(func.count()).select_from(table)
                )
                for table in TABLES.values()
            }

    def _read(self, kind: type[R], query: Select) -> Iterator[R]:
        with self._database.reading() as connection:
            yield from self._rows(connection, kind, query)

    def _rows(self, connection: Connection, kind: type[R], query: Select) -> Iterator[R]:
        stream = connection.execution_options(yield_per=_ROWS).execute(query)
        for row in stream.mappings():
            try:
                record = kind(**row)
            except ValueError as error:
                raise self._refusal(next(iter(row.values())), error) from None
            yield record

    def _refusal(self, row: object, error: ValueError) -> StitchError:
        given = f"{self.name}, row {reprlib.repr(row)}"
        return StitchError(given, str(error), "delete that row, or use another log")
