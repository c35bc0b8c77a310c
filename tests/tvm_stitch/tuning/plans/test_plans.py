"""Fusion plans tuned: regions are grouped otherwise, rightly; what is best is kept, and applied."""

from __future__ import annotations

import math
import time
import uuid
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import tvm
import zoo

import tvm_stitch
from relay_passes.fusion.planner import StitchPlanner
from relay_passes.transform import StitchOps
from support.blocks.networks import random_network
from support.tuning.kernels import device
from support.tuning.models import read_again
from tvm_stitch import pipeline
from tvm_stitch.build import Request
from tvm_stitch.tuning.log import Log, PlanChoice
from tvm_stitch.tuning.log.fingerprint import device_key
from tvm_stitch.tuning.lowered_model import lowered_model
from tvm_stitch.tuning.measure.builders import RegionBuilder
from tvm_stitch.tuning.measure.outcome import PACE, Outcome
from tvm_stitch.tuning.measure.subject import cache_bytes
from tvm_stitch.tuning.plans import partition, plan_session
from tvm_stitch.tuning.plans.choosing import ChoosingPlanner
from tvm_stitch.tuning.plans.model_regions import RegionSubject, regions_of
from tvm_stitch.tuning.plans.plan_policy import PlanPolicy
from tvm_stitch.tuning.plans.plan_session import Chosen, PlanSession
from tvm_stitch.tuning.tasks import UNFUSED

EVERY = PlanPolicy(doubt=1e9, runners_up=99, worth=0.0)
HERE = device_key(device(2))
MODEL = zoo.subgraph("squeeze_excite")


def subjects(model, policy: PlanPolicy = EVERY) -> list[RegionSubject]:
    made = lowered_model(Request(model, threads=2))
    return regions_of(made.lowered.stages[UNFUSED], made.lowered.target, made.device, policy)


def results(subject: RegionSubject, candidates: list) -> list[list[np.ndarray]]:
    """Return what a region computes by each partition, on the same inputs."""
    message = {"target": str(subject._target), "threads": 2, **subject.message()}
    builder = RegionBuilder(message)
    texts = {str(number): subject.text(each) for number, each in enumerate(candidates)}
    _, calls = builder.build(texts)
    tensors = [tvm.runtime.tensor(array) for array in builder.arrays(seed=3)]
    return [builder.run(calls[number], tensors) for number in range(len(candidates))]


@pytest.mark.long(every=3)
@pytest.mark.parametrize("seed", [None, 1, 4])
def test_every_alternative_computes_what_the_plan_does(seed):
    model = MODEL if seed is None else random_network(Random(seed)).model()
    found = subjects(model)
    assert found
    for subject in found[:4]:
        region = subject.region
        alternatives = [each.partition for each in region.alternatives[:4]]
        assert region.planned not in alternatives
        want, *others = results(subject, [region.planned, *alternatives])
        for got in others:
            for one, other in zip(got, want, strict=True):
                scale = np.abs(np.where(np.isfinite(other), other, 0.0)).max(initial=0.0)
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5 * float(scale))


def copies(found: list[RegionSubject]) -> list[tuple[RegionSubject, partition.Partition]]:
    """Return the alternatives in which an op is computed more than once."""
    pairs = ((s, a.partition) for s in found for a in s.region.alternatives)
    return [(s, p) for s, p in pairs if sum(map(len, p)) > len({n for part in p for n in part})]


def test_weights_of_a_region_come_from_where_a_models_lie():
    """Between two calls a model reads its other weights; what lies in its inputs is as in use."""
    model = zoo.model("encoder_decoder", layers=1)
    mod = lowered_model(Request(model, threads=2)).lowered.stages[UNFUSED]
    params, inputs = mod["main"].params, int(mod["main"].attrs["num_input"])
    read = sum(math.prod(map(int, each.ty.shape)) * 4 for each in params[inputs:])
    turned = [(subject, *subject.copies(PACE)) for subject in subjects(model)]
    some = [(subject, count, places) for subject, count, places in turned if places]
    assert 0 < len(some) < len(turned)
    for subject, count, places in some:
        kinds = [each.ty for each in subject._mod["main"].params]
        own = sum(4 * math.prod(map(int, kinds[place].shape)) for place in places)
        assert count == PACE.weight_sets(own, read, cache_bytes(device(2))) > 1


def test_an_op_that_is_read_again_may_be_computed_again(log):
    model = read_again()
    ((subject, choice),) = copies(subjects(model))
    for got, want in zip(*results(subject, [choice, subject.region.planned]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    usual, _, want = kernels(model, log)
    put(log, subject, partition.to_json(choice))
    count, taken, got = kernels(model, log)
    assert (count, taken) == (usual, 1)
    for name, each in got.items():
        np.testing.assert_allclose(each, want[name], rtol=1e-5, atol=1e-5)


def test_alternatives_are_those_nearer_than_the_evaluator_is_off():
    none = PlanPolicy(doubt=0.0)
    some = PlanPolicy(doubt=0.5, runners_up=2)
    assert not subjects(MODEL, none)
    for subject in subjects(MODEL, some):
        region = subject.region
        assert 1 <= len(region.alternatives) <= 2
        for each in region.alternatives:
            assert abs(each.slower_ns) <= 0.5 * region.planned_ns


class FakeCrew:
    """Says that each partition takes what `ns` has for its number of groups."""

    pace = PACE

    def __init__(self, ns: dict[int, float]) -> None:
        self._ns, self.batches = ns, []

    def take(self, subject: RegionSubject, seed: int) -> None:
        self._default = self._ns.get(len(subject.default), 100.0)

    def measure(self, candidates: list, pace: object = None) -> list[Outcome]:
        self.batches.append(candidates)
        times = (self._ns.get(len(each), 100.0) for each in candidates)
        return [
            Outcome(c, ns, self._default, 0.01, 9) for c, ns in zip(candidates, times, strict=True)
        ]


@pytest.fixture
def log(tmp_path):
    with Log.open(tmp_path / "tuning.db", create=True) as made:
        yield made


def tune_plans(found: list[RegionSubject], log: Log, crew: FakeCrew) -> list[Chosen]:
    session = PlanSession(found, log, crew, HERE, seed=1, policy=EVERY)
    session.run(None, None)
    return session.chosen


class MovingCrew(FakeCrew):
    """One to which partitions of two groups are fast in every fourth library and the next."""

    def measure(self, candidates: list, pace: object = None) -> list[Outcome]:
        made = super().measure(candidates, pace)
        return (
            [replace(each, ns=101.0) for each in made] if len(self.batches) % 4 in (3, 0) else made
        )


def test_what_another_library_does_not_show_is_not_chosen(log):
    chosen = tune_plans(subjects(MODEL), log, MovingCrew({1: 100.0, 2: 50.0}))
    assert chosen and all(each.is_planned for each in chosen)


def test_what_is_faster_is_chosen_and_not_measured_again(log):
    found = subjects(MODEL)
    chosen = tune_plans(found, log, FakeCrew({1: 100.0, 2: 50.0}))
    assert chosen and not any(each.is_planned for each in chosen)
    for each in chosen:
        kept = log.choice(each.subject.region.workload.key, HERE.key)
        assert kept.choice == partition.to_json(each.partition)
        assert (kept.ns, kept.default_ns) == (50.0, 100.0)
    again = FakeCrew({})
    assert not tune_plans(found, log, again)
    assert not again.batches


@pytest.mark.parametrize(("seconds", "count"), [(0.5, 0), (3.5, 1), (4.5, 2)])
def test_no_region_is_begun_that_would_end_after_the_budget(log, monkeypatch, seconds, count):
    clock = iter(range(99))
    ticking = SimpleNamespace(monotonic=lambda: float(next(clock)), time=time.time)
    monkeypatch.setattr(plan_session, "time", ticking)
    session = PlanSession(subjects(read_again()), log, FakeCrew({}), HERE, seed=1, policy=EVERY)
    session.run(None, seconds)
    assert len(session.chosen) == count


def test_where_nothing_is_faster_the_plan_is_chosen(log):
    found = subjects(MODEL)
    chosen = tune_plans(found, log, FakeCrew({1: 100.0, 2: 99.5}))
    assert chosen and all(each.is_planned for each in chosen)
    kept = log.choice(found[0].region.workload.key, HERE.key)
    assert kept.choice == partition.to_json(found[0].region.planned)


def kernels(model, log: Log) -> tuple[int, int, dict[str, np.ndarray]]:
    """Return how many kernels a model has by a log's choices, how many it took, its results."""
    made = []

    def stitch(at, _planner, apart, policy) -> StitchOps:
        usual = StitchPlanner(at.deciding(), policy)
        made.append(ChoosingPlanner(usual, log, HERE, at.deciding()))
        return StitchOps(at, made[-1], apart, policy)

    with mock.patch.object(pipeline, "StitchOps", stitch):
        compiled = tvm_stitch.compile(model, threads=2)
    results = compiled.run(zoo.random_inputs(model))
    return compiled.report.kernels, sum(each.taken for each in made), results


def put(log: Log, subject: RegionSubject, choice: str) -> None:
    key = subject.region.workload.key
    log.add_choices([HERE], [PlanChoice(uuid.uuid4().hex, key, HERE.key, choice, 50.0, 100.0, 1.0)])


def test_a_choice_is_applied_and_changes_no_result(log):
    usual, taken, want = kernels(MODEL, log)
    assert not taken
    subject = subjects(MODEL)[0]
    other = next(a.partition for a in subject.region.alternatives if len(a.partition) == 2)
    put(log, subject, partition.to_json(other))
    count, taken, got = kernels(MODEL, log)
    assert (count, taken) == (usual + 1, 1)
    for name, each in got.items():
        np.testing.assert_allclose(each, want[name], rtol=1e-5, atol=1e-6)


@pytest.mark.long(every=6)
@pytest.mark.parametrize(
    "choice", ["[[0]]", "3", '[["a"]]', "[[0,0]]", "{}", "[[true]]", "[[0,99]]", "null"]
)
def test_a_choice_that_is_none_of_the_region_is_left(log, choice):
    usual = kernels(MODEL, log)[0]
    put(log, subjects(MODEL)[0], choice)
    assert kernels(MODEL, log)[:2] == (usual, 0)


def test_a_choice_that_is_no_order_of_execution_is_left(log):
    subject = subjects(MODEL)[0]
    count = sum(map(len, subject.region.planned))
    middle = [[0, count - 1], [*range(1, count - 1)]]
    put(log, subject, partition.to_json(middle))
    assert kernels(MODEL, log)[1] == 0


def drawn(count: int, rng: Random) -> str:
    """Return parts of so many ops, each in one at least and each part with one of its own."""
    parts = [{place} for place in range(count)]
    for place in range(count):
        for part in rng.sample(parts, rng.choice((0, 0, 1, 2))):
            part.add(place)
    return partition.to_json(tuple(sorted(tuple(sorted(part)) for part in parts)))


@pytest.mark.long(every=2)
@pytest.mark.parametrize("seed", range(6))
def test_any_ops_in_several_parts_are_right_or_left(log, seed):
    model = read_again()
    want, rng = kernels(model, log)[2], Random(seed)
    for subject in subjects(model):
        put(log, subject, drawn(1 + max(map(max, subject.region.planned)), rng))
    for name, each in kernels(model, log)[2].items():
        np.testing.assert_allclose(each, want[name], rtol=1e-5, atol=1e-5)


def test_a_choice_that_computes_again_what_reads_nothing_in_memory_is_left(log):
    """The sum, in the reader's kernel too, would read a cast that stays in its own."""
    model = read_again()
    (subject,) = (s for s in subjects(model) if len(s.region.groups) == 2)
    (summed, *_), (first, *others) = (part[::-1] for part in subject.region.planned)
    choice = (subject.region.planned[0], tuple(sorted((summed, first, *others))))
    put(log, subject, partition.to_json(choice))
    assert kernels(model, log)[1] == 0
