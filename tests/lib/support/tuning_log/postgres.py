"""A PostgreSQL server for the time of a test: Debian's package, on a unix socket of its own."""

from __future__ import annotations

import importlib.util
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, create_engine

_DEBIAN = Path("/usr/lib/postgresql")
_SETTINGS = "-c listen_addresses='' -c fsync=off -c unix_socket_directories="


def lacking() -> str | None:
    """Return why no server can be started here."""
    if _binaries() is None:
        return f"no PostgreSQL in {_DEBIAN}"
    if importlib.util.find_spec("psycopg") is None:
        return "no psycopg"
    return None


class Server:
    """A running server, whose socket is in `folder`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._names = (f"log{number}" for number in itertools.count())

    def new_place(self) -> str:
        """Return the URL of an empty schema: a database of its own would take longer to make."""
        name = next(self._names)
        engine = create_engine(self._url())
        with engine.begin() as connection:
            connection.exec_driver_sql(f"CREATE SCHEMA {name}")
        engine.dispose()
        return self._url(options=f"-csearch_path={name}").render_as_string()

    def _url(self, **options: str) -> URL:
        query = {"host": self._folder, **options}
        return URL.create("postgresql+psycopg", "stitch", database="postgres", query=query)


@contextmanager
def server() -> Iterator[Server]:
    """Start a server; it and its files are gone when the block ends."""
    # Not pytest's folder: it is root's alone, and the server refuses to be root.
    with tempfile.TemporaryDirectory(prefix="stitch-pg-") as folder:
        account = _account()
        if account is not None:
            shutil.chown(folder, account)
        data = ("-D", f"{folder}/data")
        _run(account, "initdb", *data, "-U", "stitch", "-A", "trust", "-E", "UTF8", "--no-sync")
        log = ("-l", f"{folder}/log")
        _run(account, "pg_ctl", *data, *log, "-w", "-o", f"{_SETTINGS}{folder}", "start")
        try:
            yield Server(folder)
        finally:
            _run(account, "pg_ctl", *data, "-w", "-m", "immediate", "stop")


def _binaries() -> Path | None:
    return max(_DEBIAN.glob("*/bin"), key=lambda path: float(path.parent.name), default=None)


def _account() -> str | None:
    """Return whom a server runs as where this process is root."""
    if os.geteuid() != 0:
        return None
    accounts = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in accounts else "nobody"


def _run(account: str | None, program: str, *arguments: str) -> None:
    command = [str(_binaries() / program), *arguments]
    subprocess.run(command, check=True, user=account, cwd="/", stdout=subprocess.DEVNULL)
