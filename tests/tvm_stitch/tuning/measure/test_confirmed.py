"""What counts as a gain: seen in two libraries, and more than the default shows of itself."""

from __future__ import annotations

import pytest

from tvm_stitch.tuning.measure.confirmed import above_noise, measured_twice
from tvm_stitch.tuning.measure.outcome import PACE, Outcome


class FakeCrew:
    """Says what is next of each candidate's times; the default takes 100 ns beside them."""

    def __init__(self, **times: tuple[float | None, ...]) -> None:
        self._times = {name: iter(each) for name, each in times.items()}
        self.batches = []

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


@pytest.mark.parametrize(("shown", "taken"), [(100.0, True), (96.0, True), (80.0, False)])
def test_a_gain_is_more_than_the_default_shows(shown, taken):
    outcomes = [Outcome("usual", shown, 100.0, 0.01, 9), Outcome("fast", 90.0, 100.0, 0.01, 9)]
    assert ("fast" in above_noise(outcomes, "usual", 0.01)) == taken


def test_what_fails_or_gains_little_is_left_out_and_the_default_is_not():
    outcomes = [Outcome("usual", error="it hangs"), Outcome("lost", error="it hangs")]
    outcomes.append(Outcome("little", 99.9, 100.0, 0.01, 9))
    assert above_noise(outcomes, "usual", 0.01) == {"usual": 0.0}
