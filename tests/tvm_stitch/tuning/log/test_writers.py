"""Several processes write one log at once, and one that is killed leaves whole batches."""

from __future__ import annotations

import random
import sqlite3
import time
from collections import Counter
from contextlib import ExitStack, closing

import pytest

from support.tuning_log.records import workload
from support.tuning_log.writer import BATCH, SHARED, batch, go, start
from tvm_stitch.tuning.log import Log, opening

BATCHES, ENDLESS = 25, 1_000_000


def test_two_processes_make_and_fill_one_log_at_once(where):
    names = ("first", "second")
    with ExitStack() as ended:
        writers = [ended.enter_context(start(where, name, BATCHES)) for name in names]
        for writer in writers:
            go(writer)
        for writer in writers:
            writer.stdout.read()
    assert [writer.returncode for writer in writers] == [0, 0]
    expected = {each.uid for n in range(BATCHES) for name in names for each in batch(name, n)}
    with Log.open(where) as log:
        assert Counter(each.uid for each in log.trials()) == dict.fromkeys(expected, 1)
        assert log.counts()["workloads"] == log.counts()["devices"] == 1


@pytest.mark.long(every=2)
@pytest.mark.parametrize("seed", range(5))
def test_of_a_killed_process_at_most_the_batch_in_flight_is_lost(tmp_path, seed):
    path = tmp_path / "log.db"
    with start(path, "killed", ENDLESS) as writer:
        go(writer)
        writer.stdout.readline()
        time.sleep(random.Random(seed).uniform(0, 0.1))
        writer.kill()
        told = 1 + len(writer.stdout.readlines())
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    with Log.open(path) as log:
        kept = Counter(each.created for each in log.trials())
    assert len(kept) in (told, told + 1)
    assert kept == {float(number): BATCH + SHARED for number in range(len(kept))}


def test_a_log_that_is_not_made_to_its_end_is_none(tmp_path, monkeypatch):
    def stopped(_connection):
        raise KeyboardInterrupt

    monkeypatch.setattr(opening, "create_tables", stopped)
    with pytest.raises(KeyboardInterrupt):
        Log.open(tmp_path / "log.db", create=True)
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_another_process_makes_meanwhile_is_kept(tmp_path, monkeypatch):
    def overtaken(connection):
        monkeypatch.undo()
        with Log.open(tmp_path / "log.db", create=True) as first:
            first.append([workload()], [], [])
        opening.create_tables(connection)

    monkeypatch.setattr(opening, "create_tables", overtaken)
    with Log.open(tmp_path / "log.db", create=True) as second:
        assert list(second.workloads()) == [workload()]
