"""What a log keeps, and the order in which it gives it back, in either database."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.tuning_log.records import choice, device, failed, key, trial, workload
from tvm_stitch.tuning.log import Log, Trial


def fill(log: Log, *trials) -> int:
    workloads = [workload("w"), workload("x"), workload("y", "other")]
    return log.append(workloads, [device("d"), device("e")], trials)


def test_what_is_added_comes_back_equal(log, where):
    trials = [trial("a"), failed("b", created=2.0), trial("c", noise=None, ns=0.1 + 0.2)]
    fill(log, *trials)
    log.add_choices([], [choice("a")])
    with Log.open(where) as again:
        assert {each.uid: each for each in again.trials()} == {t.uid: t for t in trials}
        assert set(again.workloads()) == {workload("w"), workload("x"), workload("y", "other")}
        assert set(again.devices()) == {device("d"), device("e")}
        assert again.choice(key("g"), key("d")) == choice("a")
        assert again.counts() == {"workloads": 3, "devices": 2, "trials": 3, "choices": 1}


def test_text_with_sql_in_it_is_text(log):
    evil = "'; DROP TABLE stitch_trials; --"
    named = workload(evil)
    log.append([named], [device()], [failed("a", error=evil, of=evil)])
    assert log.best(evil, key("d")) is None
    assert list(log.trials(workload=evil)) == []
    assert [each.error for each in log.trials()] == [evil]
    assert list(log.workloads()) == [named]


def test_adding_twice_doubles_nothing(log):
    assert fill(log, trial("a"), trial("b")) == 2
    assert fill(log, trial("b"), trial("c")) == 1
    assert log.counts()["trials"] == 3
    assert log.counts()["workloads"] == 3


def test_of_more_trials_than_are_held_at_once_none_is_lost(log):
    trials = [trial(f"{number}", created=float(number)) for number in range(250)]
    assert fill(log, *reversed(trials)) == 250
    assert list(log.trials()) == trials


def test_more_trials_than_are_held_at_once_are_removed(log):
    trials = [trial(f"{number}", created=float(number)) for number in range(250)]
    fill(log, *trials)
    log.remove([each.uid for each in trials[1:]])
    assert list(log.trials()) == trials[:1]


def test_a_batch_is_added_whole_or_not_at_all(log):
    def broken():
        yield trial("a")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        log.append([workload()], [device()], broken())
    assert log.counts() == {"workloads": 0, "devices": 0, "trials": 0, "choices": 0}


def test_trials_come_oldest_first_of_a_workload_a_device_or_all(log):
    old, new = trial("a", created=1.0), failed("b", created=2.0)
    of_x, on_e = trial("c", of="x", created=3.0), trial("d", on="e", created=4.0)
    fill(log, on_e, new, of_x, old)
    assert list(log.trials()) == [old, new, of_x, on_e]
    assert list(log.trials(key("w"))) == [old, new, on_e]
    assert list(log.trials(device=key("d"))) == [old, new, of_x]
    assert list(log.trials(key("w"), key("e"))) == [on_e]


def test_what_is_added_while_a_log_is_read_is_not_in_what_is_read(log):
    fill(log, trial("a"))
    reading = log.records()
    first = next(reading)
    log.append([workload("new")], [device()], [trial("b", of="new")])
    assert [each for each in (first, *reading) if type(each) is Trial] == [trial("a")]
    assert log.counts()["trials"] == 2


BEST = trial("best", ns=10.0, runs=15, created=7.0)


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([trial("a", ns=11.0)], id="slower"),
        pytest.param([trial("a", ns=9.0, default_ns=100.0)], id="faster-of-a-faster-default"),
        pytest.param([trial("a", ns=1.0, runs=14)], id="of-few-runs"),
        pytest.param([failed("a", created=0.0)], id="failed"),
        pytest.param([trial("a", ns=9.0, of="x"), trial("b", ns=9.0, on="e")], id="of-others"),
        pytest.param([replace(BEST, uid="0" * 32, created=8.0)], id="younger"),
        pytest.param([replace(BEST, uid="f" * 32)], id="of-a-higher-uid"),
    ],
)
def test_the_best_gains_most_then_is_the_oldest_then_of_the_lowest_uid(log, others):
    fill(log, *others)
    fill(log, BEST)
    assert log.best(key("w"), key("d")) == BEST


def test_there_is_no_best_of_nothing(log):
    fill(log, failed("a"))
    assert log.best(key("w"), key("d")) is None
    assert log.best(key("none"), key("d")) is None


def test_near_gives_the_best_of_each_workload_of_a_structure(log):
    of_w, of_x = trial("a", ns=5.0), trial("b", ns=7.0, of="x")
    slower = [trial("c", ns=6.0), trial("d", ns=8.0, of="x"), failed("e", of="x")]
    elsewhere = [trial("f", ns=1.0, of="y"), trial("g", ns=1.0, on="e")]
    fill(log, of_w, of_x, *slower, *elsewhere)
    expected = sorted([of_w, of_x], key=lambda each: each.workload)
    assert log.near(key("s"), key("d")) == expected
    assert log.near(key("s"), key("none")) == []


def test_prune_keeps_the_best_of_each_pair_and_no_failed_one(log):
    kept = [trial("a", ns=1.0), trial("b", ns=2.0), trial("c", ns=9.0, of="x")]
    kept += [trial("d", ns=9.0, on="e")]
    gone = [trial("e", ns=2.0, created=2.0), trial("f", ns=3.0), failed("g"), failed("h", of="y")]
    fill(log, *kept, *gone)
    assert log.prune(2) == 4
    assert set(log.trials()) == set(kept)
    assert log.prune(2) == 0


def test_prune_keeps_at_least_one(log):
    with pytest.raises(ValueError, match="keep is 0"):
        log.prune(0)


def test_the_choice_is_the_fastest_of_a_graph(log):
    fill(log)
    fast, slow = choice("a", ns=90.0, created=2.0), choice("b")
    log.add_choices([device()], [slow, fast, choice("c", of="h", ns=1.0)])
    log.add_choices([device()], [fast])
    assert log.choice(key("g"), key("d")) == fast
    assert log.choice(key("g"), key("e")) is None
    assert log.counts()["choices"] == 3


def test_merging_adds_what_is_new_and_twice_nothing(log, other):
    fill(log, trial("a"), trial("b"))
    fill(other, trial("b"), trial("c"), failed("d"))
    other.append([workload("z")], [device("f")], [trial("z", of="z", on="f")])
    other.add_choices([], [choice("a")])
    assert log.merge(other) == 3
    assert log.merge(other) == 0
    assert log.merge(log) == 0
    assert set(other.records()) <= set(log.records())
    assert log.counts() == {"workloads": 4, "devices": 3, "trials": 5, "choices": 1}
