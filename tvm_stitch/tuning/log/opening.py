"""Find the log that a user names, or make it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from ...errors import StitchError
from .database import Database
from .tables import check_tables, create_tables

# Of PostgreSQL's drivers, the one that is tested.
_DRIVERS = {
    "sqlite": "sqlite",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
_WAYS = "give a path, sqlite:///FILE or postgresql://HOST/DATABASE"


def open_database(where: str | Path, create: bool) -> Database:
    """Return the database of a log, which is there or made if `create`.

    Raises: StitchError if there is none, or none of this release.
    """
    if not isinstance(where, str) or "://" not in where:
        return _sqlite(Path(where), create)
    url = _url(where)
    if url.drivername == "sqlite":
        return _sqlite(Path(url.database), create)
    # Neither the password, nor options, of which one may be another.
    database = Database(url, url.set(query={}).render_as_string(hide_password=True))
    if create:
        with database.writing() as connection:
            create_tables(connection)
    return _checked(database)


def _url(where: str) -> URL:
    shown = f"{where.partition('://')[0]}://..."  # the rest may hold a password
    try:
        url = make_url(where)
    except (ArgumentError, ValueError):  # ValueError: of a port
        raise StitchError(shown, "no database URL", _WAYS) from None
    if url.drivername not in _DRIVERS:
        raise StitchError(shown, "no database that logs are kept in", _WAYS)
    if url.drivername == "sqlite" and (not url.database or url.query):
        raise StitchError(shown, "names no file, or has options", _WAYS)
    return url.set(drivername=_DRIVERS[url.drivername])


def _sqlite(path: Path, create: bool) -> Database:
    try:
        if create and not path.exists():
            _create_file(path)
        path.stat()
    except OSError as error:
        remedy = "give the log of an earlier run, or a path in a folder that can be written"
        raise StitchError(path, error.strerror or str(error), remedy) from None
    if not path.is_file():
        raise StitchError(path, "no regular file", _WAYS)
    return _checked(_database(path))


def _create_file(path: Path) -> None:
    """Make a log aside and give it its name when it is whole: another process may do the same."""
    with TemporaryDirectory(dir=path.parent, prefix=".tvm-stitch-") as folder:
        made = Path(folder, "log")
        with closing(sqlite3.connect(made)) as connection:
            # Readers and a writer do not wait for each other. The file keeps it.
            connection.execute("PRAGMA journal_mode = WAL")
        with closing(_database(made)) as database, database.writing() as connection:
            create_tables(connection)
        with suppress(FileExistsError):
            os.link(made, path)


def _database(path: Path) -> Database:
    return Database(URL.create("sqlite", database=str(path.absolute())), str(path))


def _checked(database: Database) -> Database:
    with ExitStack() as undo:
        undo.callback(database.close)
        with database.reading() as connection:
            check_tables(database.name, connection)
        undo.pop_all()
    return database
