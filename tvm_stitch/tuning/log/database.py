"""One SQLite file or PostgreSQL database: several processes read and write it at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Table, create_engine, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError

from ...errors import StitchError

_WAIT_S = 60  # for another process's transaction; a batch takes milliseconds, a merge seconds
_LOCK = 0x5717C4  # PostgreSQL's advisory locks are numbers: any one that others do not use


@dataclass(frozen=True)
class _Dialect:
    """What each database does its own way.

    `read`: begins a transaction that sees one state. `write`: begins one beside no other writer,
    so that two that add the same rows in other orders cannot wait for each other.
    """

    insert: Callable[[Table], Any]
    read: str
    write: str


_DIALECTS = {
    "sqlite": _Dialect(sqlite.insert, "BEGIN", "BEGIN IMMEDIATE"),
    "postgresql": _Dialect(
        postgresql.insert,
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        f"SET LOCAL lock_timeout = '{_WAIT_S}s'; SELECT pg_advisory_xact_lock({_LOCK})",
    ),
}


class Database:
    """Raises StitchError, which names it, for whatever the database itself refuses."""

    def __init__(self, url: URL, name: str) -> None:
        self.name = name
        self.path = Path(url.database) if url.get_backend_name() == "sqlite" else None
        options: dict[str, Any] = {}
        if url.get_backend_name() == "sqlite":
            options["connect_args"] = {"timeout": _WAIT_S}
        try:
            self._engine = create_engine(url, **options)
        except ArgumentError as error:
            raise StitchError(name, str(error), "use postgresql://HOST/DATABASE") from None
        except ModuleNotFoundError as error:
            remedy = "pip install 'tvm-stitch[postgresql]'"
            raise StitchError(name, f"{error.name} is missing", remedy) from None
        self._dialect = _DIALECTS[self._engine.dialect.name]
        if self._engine.dialect.name == "sqlite":
            event.listen(self._engine, "connect", _distrust)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that sees the database as it is now, whoever writes meanwhile."""
        with self._told(), self._engine.begin() as connection:
            connection.exec_driver_sql(self._dialect.read)
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that is kept whole, or not at all if the block raises."""
        with self._told(), self._engine.begin() as connection:
            connection.exec_driver_sql(self._dialect.write)
            yield connection

    def insert_new(self, connection: Connection, table: Table, rows: list[dict]) -> int:
        """Add rows that are not there by their primary key, and return how many were added."""
        insert = self._dialect.insert(table).on_conflict_do_nothing()
        counted = {"preserve_rowcount": True}
        return connection.execute(insert, rows, execution_options=counted).rowcount

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            remedy = "see that it is a whole tuning log, and may be read and written"
            raise StitchError(self.name, str(error.orig), remedy) from None


def _distrust(connection: sqlite3.Connection, _record: object) -> None:
    """As SQLite advises for files from others; foreign keys are off unless they are asked for."""
    for pragma in ("foreign_keys = ON", "trusted_schema = OFF", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {pragma}")
