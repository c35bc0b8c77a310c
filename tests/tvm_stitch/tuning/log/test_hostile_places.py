"""Places that hold no log and where none can be made: one line each, and nothing is left there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from support.tuning_log.refused import refusal


@pytest.mark.parametrize(
    ("where", "told"),
    [
        pytest.param("mysql://host/logs", "mysql://...: no database that logs", id="mysql"),
        pytest.param("postgresql+psycopg2://host/logs", "no database that logs", id="driver"),
        pytest.param("postgresql://me:secret@host:x/logs", "no database URL", id="port"),
        pytest.param("://", "no database URL", id="no-scheme"),
        pytest.param("sqlite://", "names no file", id="in-memory"),
        pytest.param("sqlite:///log.db?mode=ro", "has options", id="options"),
        pytest.param("sqlite:///no/log.db", "no/log.db: No such file", id="sqlite-url"),
        pytest.param("no.db", "no.db: No such file", id="missing"),
        pytest.param("n" * 300, "File name too long", id="long-name"),
        pytest.param(".", "no regular file", id="folder"),
        pytest.param("pipe", "no regular file", id="pipe"),
    ],
)
def test_a_place_that_is_no_log_is_refused(tmp_path, monkeypatch, where, told):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    assert told in refusal(where)
    assert os.listdir() == ["pipe"]


@pytest.mark.parametrize("where", ["no/log.db", "/proc/log.db", "file/log.db"])
def test_a_log_is_not_made_where_none_can_be(tmp_path, monkeypatch, where):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert f"{where}: " in refusal(where, create=True)
    assert os.listdir() == ["file"]


def test_a_server_that_is_not_there_is_told_without_its_password(tmp_path):
    pytest.importorskip("psycopg", reason="no PostgreSQL driver")
    message = refusal(f"postgresql://me:secret@/logs?host={tmp_path}&password=secret")
    assert message.startswith("postgresql+psycopg://me:***@/logs: connection")
    assert "secret" not in message


def test_a_database_without_a_log_is_refused(server):
    assert "holds no tuning log" in refusal(server.new_place())


def test_a_missing_driver_is_told_with_what_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "pip install 'tvm-stitch[postgresql]'" in refusal("postgresql://host/logs")
