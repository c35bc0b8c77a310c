"""Logs in either database; tests of PostgreSQL skip where it is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.tuning_log import postgres
from tvm_stitch.tuning.log import Log


@pytest.fixture(scope="session")
def server() -> Iterator[postgres.Server]:
    if reason := postgres.lacking():
        pytest.skip(reason)
    with postgres.server() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request, tmp_path) -> Path | str:
    """Return where a log may be made."""
    if request.param == "sqlite":
        return tmp_path / "log.db"
    return request.getfixturevalue("server").new_place()


@pytest.fixture
def log(where) -> Iterator[Log]:
    with Log.open(where, create=True) as opened:
        yield opened


@pytest.fixture
def other(tmp_path) -> Iterator[Log]:
    with Log.open(tmp_path / "other.db", create=True) as opened:
        yield opened
