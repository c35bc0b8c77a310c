"""Features: a plan in numbers, of which a model can tell plans apart."""

from __future__ import annotations

import math
import random

import pytest

from support.cuda.checked import H200
from support.tuning.kernels import KERNELS, device
from tir_schedules.decisions import with_knob
from tir_schedules.tuning.candidates import Candidates
from tir_schedules.tuning.features import features


@pytest.mark.parametrize("name", KERNELS)
def test_they_are_finite_and_tell_most_plans_apart(name):
    made, rng = Candidates.of(KERNELS[name](), device()), random.Random(1)
    drawn = {made.space.sample(rng) for _ in range(40)}
    plans = [p for p in map(made.plan, drawn) if not isinstance(p, str)]
    told = [features(plan, device()) for plan in plans]
    assert all(math.isfinite(value) for each in told for value in each.values())
    assert len({tuple(sorted(each.items())) for each in told}) > 0.7 * len(plans)


@pytest.mark.parametrize("name", KERNELS)
def test_each_variant_of_a_kernel_has_the_same_summary(name):
    made = Candidates.of(KERNELS[name](), device())
    told = [features(made.plan(each.default), device()) for each in made.space.variants]
    for summary in ("params", "bytes", "item bytes", "threads"):
        assert len({each[summary] for each in told}) == 1


def test_what_is_decided_shows():
    made = Candidates.of(KERNELS["softmax"](), device())
    usual = features(made.plan(made.default), device())
    serial, parallel = (
        features(made.plan(with_knob(made.default, "parallel", value)), device())
        for value in (False, True)
    )
    assert usual in (serial, parallel)
    assert (serial["parallel"], parallel["parallel"]) == (0.0, 1.0)
    assert serial["predicted"] != parallel["predicted"]


def test_it_shows_of_which_nest_something_was_decided():
    made = Candidates.of(KERNELS["softmax"](), device())
    usual = features(made.plan(made.default), device())
    changed = []
    for nest in (0, 2):
        path = f"phases.0.nests.{nest}.lanes"
        told = features(made.plan(with_knob(made.default, path, 8)), device())
        apart = {name for name in told if told[name] != usual[name]}
        changed.append({name for name in apart if name.startswith(("sum ", "pass "))})
    first, last = changed
    assert first and last and not first & last


@pytest.mark.parametrize("name", KERNELS)
def test_those_of_gpus_are_finite_and_tell_most_plans_apart(name):
    made, rng = Candidates.of(KERNELS[name](), H200), random.Random(1)
    drawn = {made.space.sample(rng) for _ in range(60)}
    plans = [p for p in map(made.plan, drawn) if not isinstance(p, str)]
    told = [features(plan, H200) for plan in plans]
    assert len(plans) > 10
    assert all(math.isfinite(value) for each in told for value in each.values())
    assert len({tuple(sorted(each.items())) for each in told}) > 0.5 * len(plans)
