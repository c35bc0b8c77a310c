"""Files that are no log, and logs that were damaged or edited: one line each, and nothing runs."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from support.hostile.bytes import damaged
from support.tuning_log.records import choice, device, failed, key, trial, uid, workload
from support.tuning_log.refused import refusal
from tvm_stitch.errors import StitchError
from tvm_stitch.tuning.log import Log


@pytest.fixture
def path(tmp_path) -> Path:
    """Return a whole log of a few pages."""
    path = tmp_path / "log.db"
    trials = [trial(f"{number}", created=float(number)) for number in range(40)]
    with Log.open(path, create=True) as log:
        log.append([workload()], [device()], [*trials, failed("failed")])
        log.add_choices([], [choice("c")])
    return path


def edit(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in ("PRAGMA writable_schema = ON", *statements):
            connection.execute(statement)
        connection.commit()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        pytest.param(lambda log: random.Random(0).randbytes(9999), "not a database", id="random"),
        pytest.param(lambda log: b"", "holds no tuning log", id="empty"),
        pytest.param(lambda log: log[:20], "not a database", id="half-a-header"),
        pytest.param(lambda log: log[: len(log) // 2], "malformed", id="truncated"),
        pytest.param(lambda log: log[:-4096], "malformed", id="a-page-short"),
        pytest.param(lambda log: log[:4096] + bytes(len(log) - 4096), "malformed", id="zeros"),
    ],
)
def test_a_file_that_is_no_log_is_refused(path, data, told):
    path.write_bytes(data(path.read_bytes()))
    assert told in refusal(path)


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        pytest.param(["UPDATE stitch_log SET format = 0"], "older than this", id="older"),
        pytest.param(["UPDATE stitch_log SET format = 2"], "newer than this", id="newer"),
        pytest.param(["UPDATE stitch_log SET format = 'one'"], "no tuning log", id="no-number"),
        pytest.param(["INSERT INTO stitch_log VALUES (1)"], "no tuning log", id="two-formats"),
        pytest.param(["DELETE FROM stitch_log"], "no tuning log", id="no-format"),
        pytest.param(["DROP TABLE stitch_log"], "no tuning log", id="no-format-table"),
        pytest.param(
            ["ALTER TABLE stitch_log RENAME COLUMN format TO f"], "no such column", id="column"
        ),
        pytest.param(["DROP TABLE stitch_trials"], "stitch_trials has no column", id="no-table"),
        pytest.param(
            ["ALTER TABLE stitch_trials DROP COLUMN noise"], "no column noise", id="no-column"
        ),
        pytest.param(
            ["DROP TABLE stitch_devices", "CREATE TABLE stitch_devices (key BLOB, text TEXT)"],
            "no column key of VARCHAR(64)",
            id="wrong-type",
        ),
        pytest.param(
            [
                "CREATE TRIGGER evil AFTER INSERT ON stitch_trials "
                "BEGIN DELETE FROM stitch_trials; END"
            ],
            "a trigger or a view, evil",
            id="trigger",
        ),
        pytest.param(["CREATE VIEW evil AS SELECT 1"], "a trigger or a view, evil", id="view"),
    ],
)
def test_a_file_with_other_tables_is_refused(path, statements, told):
    edit(path, *statements)
    assert told in refusal(path)
    assert told in refusal(path, create=True)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        pytest.param("ns = 'fast'", "ns is 'fast'", id="text-for-a-time"),
        pytest.param("ns = x'00'", "ns is b'\\x00'", id="bytes-for-a-time"),
        pytest.param("ns = -1.0", "ns is -1.0", id="negative"),
        pytest.param("ns = 0.0", "ns is 0", id="zero"),
        pytest.param("ns = 1e999", "ns is inf", id="infinite"),
        pytest.param("ns = NULL", "exactly one of ns and error", id="nothing"),
        pytest.param("error = 'x' || char(10)", "exactly one of ns and error", id="both"),
        pytest.param("runs = 99999999999", "runs is 99999999999", id="runs"),
        pytest.param("created = ''", "created is ''", id="created"),
        pytest.param("decisions = '__import__(1)'", "decisions is no JSON", id="code"),
        pytest.param(f"decisions = '{'[' * 99999}'", "decisions is no JSON", id="deep"),
        pytest.param("decisions = printf('%.*c', 2000000, 'x')", "2000000 char", id="long"),
        pytest.param("decisions = x'80'", "decisions is b'\\x80'", id="bytes"),
        pytest.param(f"workload = '{key('none')}'", "is not there", id="no-workload"),
        pytest.param(f"device = '{key('none')}'", "is not there", id="no-device"),
    ],
)
def test_an_edited_row_is_refused_with_its_uid(path, value, told):
    edit(path, f"UPDATE stitch_trials SET {value} WHERE uid = '{uid('7')}'")
    message = refusal(path)
    assert message.startswith(f"{path}, row '{uid('7')}'"[:60])
    assert told in message
    assert message.endswith("delete that row, or use another log")


def test_a_text_that_is_no_utf_8_is_refused(path):
    edit(path, "UPDATE stitch_workloads SET text = CAST(x'80' AS TEXT)")
    assert "UTF-8" in refusal(path)


def test_a_log_that_another_process_does_not_let_go_is_told(path, monkeypatch):
    monkeypatch.setattr("tvm_stitch.tuning.log.database._WAIT_S", 0.1)
    with closing(sqlite3.connect(path)) as other, Log.open(path) as log:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StitchError, match="database is locked"):
            log.append([workload("x")], [], [])
        assert log.counts()["workloads"] == 1


def test_a_log_with_a_bad_row_adds_nothing_to_another(path, other):
    edit(path, f"UPDATE stitch_trials SET ns = -1.0 WHERE uid = '{uid('7')}'")
    with Log.open(path) as log, pytest.raises(StitchError, match="ns is -1"):
        other.merge(log)
    assert other.counts()["workloads"] == 0


def test_a_trial_of_an_unknown_workload_is_not_added(other):
    with pytest.raises(StitchError, match="FOREIGN KEY"):
        other.append([], [device()], [trial("a")])
    assert other.counts()["devices"] == 0


def test_whatever_bytes_change_a_log_is_read_or_refused(path):
    whole = path.read_bytes()
    for seed in range(100):
        path.write_bytes(damaged(whole, whole, random.Random(seed)))
        try:
            with Log.open(path) as log:
                list(log.records())
        except StitchError as error:
            assert str(error).isprintable()
