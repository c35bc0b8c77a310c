"""Threads that are apart for a while are waited for; what stays so, and a busy machine, are not."""

from __future__ import annotations

import pytest

from tvm_stitch.profiling.calibration import meeting as meeting_module
from tvm_stitch.profiling.calibration.meeting import POLICY, Meeting

NEAR_NS, APART_NS = 8_000, 18_000


class Clock:
    """A clock that a call of the kernel moves, and a wait."""

    def __init__(self) -> None:
        self.ns, self.apart_until_ns, self.apart_ns = 0, 0, APART_NS

    def call(self) -> None:
        self.ns += self.apart_ns if self.ns < self.apart_until_ns else NEAR_NS

    def sleep(self, seconds: float) -> None:
        self.ns += round(seconds * 1e9)


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(meeting_module.time, "perf_counter_ns", lambda: made.ns)
    monkeypatch.setattr(meeting_module.time, "monotonic", lambda: made.ns * 1e-9)
    monkeypatch.setattr(meeting_module.time, "sleep", made.sleep)
    return made


@pytest.fixture
def meeting(clock):
    made = Meeting(clock.call)
    assert made.settle() < POLICY.pause_s and made.usual_ns == NEAR_NS
    return made


def test_it_waits_until_threads_are_near(clock, meeting):
    clock.apart_until_ns = clock.ns + 2 * 10**9
    assert meeting.settle() == pytest.approx(2.0, abs=2 * POLICY.pause_s)
    assert meeting.usual_ns == NEAR_NS


def test_threads_that_stay_apart_are_so_from_then(clock, meeting):
    clock.apart_until_ns = clock.ns + 3600 * 10**9
    assert meeting.settle() == pytest.approx(POLICY.wait_s, abs=2 * POLICY.pause_s)
    assert meeting.usual_ns == APART_NS
    assert meeting.settle() < POLICY.pause_s
    clock.apart_until_ns = 0
    meeting.settle()
    assert meeting.usual_ns == NEAR_NS


def test_threads_that_come_and_go_are_not_waited_for_forever(clock, meeting):
    """Apart for 5 s of every 6: what is waited is a share of the time, and near is usual still."""
    second, start = 10**9, clock.ns
    while clock.ns - start < 600 * second:
        clock.apart_until_ns = clock.ns + 5 * second
        meeting.settle()
        assert meeting.usual_ns == NEAR_NS
        clock.ns = max(clock.ns, clock.apart_until_ns) + second
        meeting.settle()
    allowed = POLICY.wait_s + 600 * POLICY.share
    assert 0.8 * allowed < meeting._waited < allowed + 1.0


def test_a_busy_machine_is_not_waited_for(clock, meeting):
    clock.apart_ns = 10 * NEAR_NS
    clock.apart_until_ns = clock.ns + 3600 * 10**9
    assert meeting.settle() < POLICY.pause_s
    assert meeting.usual_ns == NEAR_NS


def test_a_thread_that_is_held_up_now_and_then_is_near(clock, meeting):
    calls = []

    def held_up() -> None:
        calls.append(None)
        clock.ns += 6 * NEAR_NS if len(calls) % 7 == 0 else NEAR_NS

    meeting._call = held_up
    assert meeting.settle() < 1.0 and meeting.usual_ns == NEAR_NS


def test_threads_of_this_machine_meet():
    made = Meeting.of(2)
    made.settle()
    assert 0.0 < made.usual_ns < 1e9


def test_one_thread_meets_no_other():
    made = Meeting.of(1)
    assert made.settle() == 0.0 and made.usual_ns == 1.0
