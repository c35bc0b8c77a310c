"""Values that were not tried together, and what has most of them."""

from __future__ import annotations

import pytest

from support.tuning.kernels import KERNELS, device
from tir_schedules.decisions import knobs, with_knob
from tir_schedules.tuning.candidates import Candidates
from tvm_stitch.tuning.pairs import Pairs

MADE = Candidates.of(KERNELS["softmax"](), device())
DEFAULT = MADE.default


def moved(count: int):
    """Return the default with the last candidates of its first knobs that have several."""
    (space, *_) = MADE.space.variants
    several = [knob for knob in space.knobs if len(knob.candidates) > 1]
    at = DEFAULT
    for knob in several[:count]:
        at = with_knob(at, knob.path, knob.candidates[-1])
    return at


@pytest.fixture
def pairs():
    found = Pairs(MADE, 1)
    found.tell(DEFAULT)
    return found


def test_what_has_most_new_pairs_comes_first_and_what_has_none_not_at_all(pairs):
    one, two, three = map(moved, (1, 2, 3))
    found = pairs.newest([DEFAULT, one, three, two], 4)
    assert found[0] == three and {*found[1:]} == {one, two}
    pairs.tell(two)
    assert pairs.newest([DEFAULT, two], 2) == []


def test_pairs_that_another_brings_are_not_new(pairs):
    space = MADE.space.variants[0]
    several = [knob for knob in space.knobs if len(knob.candidates) > 1][:3]
    changed = [with_knob(DEFAULT, k.path, k.candidates[-1]) for k in several]
    both = with_knob(changed[0], several[1].path, several[1].candidates[-1])
    found = pairs.newest([both, changed[0], changed[2]], 2)
    assert found == [both, changed[2]]


def test_what_is_around_differs_in_few_knobs_and_more_than_one(pairs):
    have = knobs(DEFAULT)
    found = pairs.around(DEFAULT, 64, 3)
    counts = [sum(knobs(each)[path] != have[path] for path in have) for each in found]
    assert len(found) == 64 and max(counts) == 3 and {1, 2} <= {*counts}
