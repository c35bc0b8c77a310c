"""Training on a log: what is learned of some kernels ranks others."""

from __future__ import annotations

import math

import numpy as np
import pytest

from support.tuning_log.records import failed, trial
from tvm_stitch.tuning.model import rows
from tvm_stitch.tuning.model.training import held_out, samples_of, trained


def trials(kernels: int, each: int, told: bool = True) -> list:
    """Trials whose gain follows from their lanes, or from nothing that the features tell."""
    rng, made = np.random.default_rng(5), []
    for kernel in range(kernels):
        for number in range(each):
            lanes, size = rng.uniform(-1, 1), float(kernel)
            shown = lanes if told else rng.uniform(-1, 1)
            text = rows.to_json({"lanes": shown, "size": size, "more": rng.uniform(-1, 1)})
            name = f"{kernel}/{number}"
            made.append(trial(name, of=f"{kernel}", ns=100 * 2.0**-lanes, features=text))
    return made


def test_what_is_learned_of_kernels_ranks_others():
    samples = samples_of(trials(kernels=8, each=30), "log")
    assert held_out(samples, seed=0).accuracy > 0.75
    assert held_out(samples, seed=0).error < 0.35
    model = trained(samples, seed=0)
    slow, fast = model.predict([{"lanes": -0.9, "size": 3.0}, {"lanes": 0.9, "size": 3.0}])
    assert fast > slow + 0.3
    assert next(iter(model.importances())) == "lanes"


def test_what_features_do_not_tell_is_not_learned():
    samples = samples_of(trials(kernels=8, each=30, told=False), "log")
    unseen = held_out(samples, seed=0)
    assert 0.4 < unseen.accuracy < 0.6
    assert unseen.error > 0.5


@pytest.mark.parametrize(
    ("kernels", "each"), [pytest.param(2, 90, id="kernels"), pytest.param(9, 9, id="trials")]
)
def test_of_too_few_the_evaluator_is_asked(kernels, each):
    samples = samples_of(trials(kernels, each), "log")
    assert trained(samples, seed=0).booster is None
    assert math.isnan(held_out(samples, seed=0).error)


def test_failed_trials_and_those_without_features_are_left_out():
    made = samples_of([trial("a"), failed("b"), trial("c", features=None)], "log")
    assert len(made.rows) == 1
