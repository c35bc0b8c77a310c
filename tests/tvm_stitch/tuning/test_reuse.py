"""Reuse: what a log says of a kernel that is compiled."""

from __future__ import annotations

import random
import sqlite3
from dataclasses import replace
from typing import Any

import pytest
from tvm import te, topi

from support.tuning.kernels import KERNELS, device, product, softmax
from tir_schedules.decisions import with_knob
from tir_schedules.tuning.candidates import Candidates
from tvm_stitch.tuning.log import Log
from tvm_stitch.tuning.log.fingerprint import device_key
from tvm_stitch.tuning.measure.outcome import Outcome
from tvm_stitch.tuning.model.kept import keep
from tvm_stitch.tuning.policy import POLICY
from tvm_stitch.tuning.records import features_of, trial, workload_record
from tvm_stitch.tuning.reuse import DEFAULT, LEARNT, NEAR, TUNED, Reuse

SOFTMAX = Candidates.of(softmax(), device())
LARGER = Candidates.of(softmax(44, 129), device())
PRODUCT = Candidates.of(product(), device())


@pytest.fixture
def log(tmp_path):
    with Log.open(tmp_path / "tuning.db", create=True) as made:
        yield made


def write(
    log: Log,
    made: Candidates,
    times: dict[Any, float],
    runs: int = 15,
    threads: int = 2,
    default_ns: float = 100.0,
) -> None:
    """Write what decisions take, in parts of a hundred of the default."""
    key, each = device_key(device(threads)), default_ns / 100.0
    trials = [
        trial(made, key, Outcome(d, each * ns, default_ns, 0.01, runs), features_of(made, d))
        for d, ns in times.items()
    ]
    log.append([workload_record(made)], [key], trials)


def others(made: Candidates, count: int) -> list[Any]:
    legal = (d for d in made.neighbours(made.default) if not isinstance(made.plan(d), str))
    return [decisions for decisions, _ in zip(legal, range(count), strict=False)]


def test_what_was_tuned_is_taken(log):
    slow, fast = others(SOFTMAX, 2)
    write(log, SOFTMAX, {SOFTMAX.default: 100.0, slow: 120.0, fast: 80.0})
    decided = Reuse(log, device()).decide(SOFTMAX)
    assert (decided.decisions, decided.how, decided.gain) == (fast, TUNED, 1.25)


def test_of_what_was_searched_in_vain_the_default_is_kept(log):
    write(log, SOFTMAX, {SOFTMAX.default: 100.0, others(SOFTMAX, 1)[0]: 130.0})
    decided = Reuse(log, device()).decide(SOFTMAX)
    assert (decided.decisions, decided.how) == (SOFTMAX.default, TUNED)


@pytest.mark.parametrize(("ns", "how"), [(80.0, "tuned"), (95.0, "default")])
def test_of_trials_that_were_timed_shortly_a_small_gain_is_luck(log, ns, how):
    (fast,) = others(SOFTMAX, 1)
    write(log, SOFTMAX, {SOFTMAX.default: 100.0, fast: ns}, runs=5)
    decided = Reuse(log, device()).decide(SOFTMAX)
    assert decided.decisions == (fast if how == "tuned" else SOFTMAX.default)


def test_another_size_gives_its_decisions(log):
    usable = next(d for d in others(LARGER, 99) if d.tasks == 8)
    assert SOFTMAX.space_of(usable) is not None
    write(log, LARGER, {usable: 50.0})
    decided = Reuse(log, device()).decide(SOFTMAX)
    assert (decided.decisions, decided.how, decided.gain) == (usable, NEAR, 2.0)


@pytest.mark.parametrize(("rows", "how"), [(47, NEAR), (48, DEFAULT), (6600, DEFAULT)])
def test_a_kernel_in_another_level_of_memory_says_nothing(log, rows, how):
    """Of 48 KiB of L1: 47 rows of 129, read and written, are the most that it holds."""
    other = Candidates.of(softmax(rows, 129), device())
    write(log, other, {next(d for d in others(other, 99) if d.tasks == 8): 50.0})
    assert Reuse(log, device()).decide(SOFTMAX).how == how


def test_a_trial_of_damaged_features_says_nothing_of_another_size(log):
    """The model that lies beside the log was made before they were."""
    write_of_many(log)
    write(log, LARGER, {next(d for d in others(LARGER, 99) if d.tasks == 8): 50.0})
    keep(log, device_key(device()))
    with sqlite3.connect(log.path) as database:
        found = (LARGER.workload.key,)
        database.execute(
            'update stitch_trials set features = \'{"level":"x"}\' where workload = ?', found
        )
    assert Reuse(log, device()).decide(SOFTMAX).how != NEAR


@pytest.mark.parametrize(("rows", "how"), [(34, DEFAULT), (200, NEAR)])
def test_a_kernel_of_a_few_register_tiles_takes_nothing_of_another_size(log, rows, how):
    """Its time is that of the rows left over; one of many tiles takes what another has."""
    larger, other = (Candidates.of(product(m, 23, 19), device()) for m in (rows, rows // 2))
    usable = next(d for d in others(other, 999) if d.tasks == 8)
    write(log, other, {other.default: 100.0, usable: 60.0})
    assert Reuse(log, device()).decide(larger).how == how


@pytest.mark.parametrize(("nearest", "how", "gain"), [(80.0, NEAR, 1.25), (100.0, DEFAULT, 1.0)])
def test_of_several_sizes_the_nearest_decides(log, nearest, how, gain):
    """Whatever a far one gained: its default has other faults."""
    usable = next(d for d in others(LARGER, 99) if d.tasks == 8)
    write(log, LARGER, {usable: nearest}, default_ns=2e3)
    write(log, Candidates.of(softmax(22, 129), device()), {usable: 20.0}, default_ns=10.0)
    decided = Reuse(log, device()).decide(SOFTMAX)
    assert (decided.how, decided.gain) == (how, gain)


def test_decisions_of_another_size_that_are_predicted_slower_are_left(log):
    slower = next(d for d in others(LARGER, 999) if d.phases[0].nests[0].lanes == 1)
    assert SOFTMAX.space_of(slower) is not None
    write(log, LARGER, {slower: 50.0})
    assert Reuse(log, device()).decide(SOFTMAX).how == DEFAULT


def test_decisions_of_another_epilogue_and_batch_are_taken(log):
    x, weight = (te.placeholder(s, "float32", "t") for s in ((62, 65), (65, 64)))
    func = te.create_prim_func([x, weight, topi.tanh(topi.matmul(x, weight))])
    with_tanh = Candidates.of(func, device())
    wanted = replace_rows(with_tanh.default, 8)
    assert PRODUCT.space_of(wanted) is None  # its tiles are of another size
    write(log, with_tanh, {wanted: 50.0})
    decided = Reuse(log, device()).decide(PRODUCT)
    assert decided.how == NEAR
    assert decided.decisions.phases[0].nests[0].rows == 8
    assert decided.decisions.phases[0].tile == PRODUCT.default.phases[0].tile


def replace_rows(decisions: Any, rows: int) -> Any:
    return with_knob(decisions, "phases.0.nests.0.rows", rows)


def test_a_kernel_of_another_structure_says_nothing(log):
    write(log, PRODUCT, {others(PRODUCT, 1)[0]: 50.0})
    decided = Reuse(log, device()).decide(SOFTMAX)
    assert (decided.decisions, decided.how, decided.gain) == (SOFTMAX.default, DEFAULT, 1.0)


def test_another_number_of_threads_is_another_device(log):
    write(log, SOFTMAX, {others(SOFTMAX, 1)[0]: 50.0}, threads=1)
    assert Reuse(log, device()).decide(SOFTMAX).how == DEFAULT


def write_of_many(log: Log) -> None:
    """Write of kernels that run twice as fast in 8 tasks, whatever they compute."""
    rng = random.Random(2)
    for name in ("product", "convolution", "normalised", "attention"):
        made = Candidates.of(KERNELS[name](), device())
        drawn = {made.space.sample(rng) for _ in range(120)} | {made.default}
        legal = [d for d in drawn if not isinstance(made.plan(d), str)]
        times = {d: 50.0 if d.tasks == 8 else 100.0 for d in legal}
        write(log, made, times, runs=5)


def test_what_holds_of_many_kernels_is_learnt(log):
    """So one that was never seen does too."""
    write_of_many(log)
    decided = Reuse(log, device()).decide(SOFTMAX)
    assert decided.how == LEARNT
    assert decided.decisions.tasks == 8
    assert 1.2 < decided.gain < 3.0


def test_what_is_within_some_errors_of_the_model_is_not_learnt(log):
    """The best of many that are predicted is the one of which the model is off most."""
    write_of_many(log)
    assert Reuse(log, device(), replace(POLICY.reuse, errors=300.0)).decide(SOFTMAX).how == DEFAULT


def test_the_same_log_decides_the_same(log):
    write(log, SOFTMAX, dict.fromkeys(others(SOFTMAX, 5), 80.0))
    first, second = (Reuse(log, device()).decide(SOFTMAX) for _ in range(2))
    assert first == second
