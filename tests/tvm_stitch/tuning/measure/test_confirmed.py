"""What counts as a gain: seen in two libraries, and more than the default shows of itself."""

from __future__ import annotations

import pytest

from tvm_stitch.tuning.measure.confirmed import above_noise, measured_often, measured_twice
from tvm_stitch.tuning.measure.outcome import PACE, Outcome


class FakeCrew:
    """Says what is next of each candidate's times; the default takes 100 ns beside them."""

    def __init__(self, **times: tuple[float | None, ...]) -> None:
        self._times = {name: iter(each) for name, each in times.items()}
        self.batches, self.renewed = [], []

    def renew(self):
        self.renewed.append(len(self.batches))

    def measure(self, candidates, pace):
        self.batches.append(candidates)
        return [self._outcome(name, next(self._times[name])) for name in candidates]

    def _outcome(self, name: str, ns: float | None) -> Outcome:
        if ns is None:
            return Outcome(name, error="it hangs")
        return Outcome(name, ns, 100.0, 0.01, 9)


def test_the_worse_of_two_is_told_in_the_order_asked():
    crew = FakeCrew(usual=(100.0, 99.0), fast=(78.5, 80.0), lost=(40.0, None))
    usual, fast, lost = measured_twice(crew, ["usual", "fast", "lost"], PACE)
    assert (usual.ns, fast.ns) == (100.0, 80.0) and lost.error == "it hangs"
    assert fast.runs == 18
    assert crew.batches == [["usual", "fast", "lost"], ["lost", "usual", "fast"]]


@pytest.mark.parametrize(("third", "ns"), [(51.0, 51.0), (79.0, 79.0), (90.0, 80.0), (None, 80.0)])
def test_of_two_that_are_apart_a_third_decides(third, ns):
    crew = FakeCrew(usual=(100.0, 99.0), fast=(50.0, 80.0, third))
    usual, fast = measured_twice(crew, ["usual", "fast"], PACE)
    assert (usual.ns, fast.ns) == (100.0, ns)
    assert crew.batches[2:] == [["fast"]]


def test_of_many_libraries_the_median_is_told_beside_the_defaults_own():
    usual, fast = (98.0, 110.0, 104.0, 102.0), (80.0, 70.0, 79.0, 60.0)
    crew = FakeCrew(usual=usual, fast=fast)
    default, found = measured_often(crew, ["usual", "fast"], PACE, 4, renews=True)
    assert found.ns == 79.0 and found.runs == 36
    base = (100.0 / 102.0 + 100.0 / 104.0) / 2
    assert found.gain == pytest.approx(100.0 / 79.0 / base)
    assert crew.renewed == [2]
    assert crew.batches == [["usual", "fast"], ["fast", "usual"]] * 2
    assert above_noise([default, found], "usual", 0.01).keys() == {"usual", "fast"}


def test_what_is_far_behind_is_not_timed_again():
    crew = FakeCrew(usual=[100.0] * 4, fast=[80.0] * 4, near=[81.0] * 4, far=[85.0] * 2)
    outcomes = measured_often(crew, ["usual", "fast", "near", "far"], PACE, 4, renews=False)
    assert [each.ns for each in outcomes] == [100.0, 80.0, 81.0, 85.0]
    assert [len(batch) for batch in crew.batches] == [4, 4, 3, 3] and not crew.renewed


def test_where_nothing_is_near_the_default_it_is_not_timed_again():
    crew = FakeCrew(usual=[100.0] * 2, slow=[104.0] * 2)
    measured_often(crew, ["usual", "slow"], PACE, 6, renews=True)
    assert len(crew.batches) == 2 and not crew.renewed


def test_what_fails_in_one_of_many_libraries_has_failed():
    crew = FakeCrew(usual=[100.0] * 4, lost=(50.0, 50.0, 50.0, None), bad=(None, None))
    outcomes = measured_often(crew, ["usual", "lost", "bad"], PACE, 4, renews=False)
    assert [each.error for each in outcomes] == [None, "it hangs", "it hangs"]


def test_a_default_that_fails_is_no_base():
    crew = FakeCrew(usual=[None] * 2, fast=[80.0] * 2)
    default, found = measured_often(crew, ["usual", "fast"], PACE, 2, renews=False)
    assert default.error == "it hangs" and found.gain == pytest.approx(1.25)


@pytest.mark.parametrize(("shown", "taken"), [(100.0, True), (96.0, True), (80.0, False)])
def test_a_gain_is_more_than_the_default_shows(shown, taken):
    outcomes = [Outcome("usual", shown, 100.0, 0.01, 9), Outcome("fast", 90.0, 100.0, 0.01, 9)]
    assert ("fast" in above_noise(outcomes, "usual", 0.01)) == taken


def test_what_fails_or_gains_little_is_left_out_and_the_default_is_not():
    outcomes = [Outcome("usual", error="it hangs"), Outcome("lost", error="it hangs")]
    outcomes.append(Outcome("little", 99.9, 100.0, 0.01, 9))
    assert above_noise(outcomes, "usual", 0.01) == {"usual": 0.0}
