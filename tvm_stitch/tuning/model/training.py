"""A model of the gains that a log has of a device, and how well it ranks what it has not seen."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from ...errors import StitchError
from ..log import Trial
from . import rows
from .gains import GainModel, gain_of, rank_accuracy
from .learning_policy import POLICY


@dataclass(frozen=True)
class Samples:
    """Rows of plans with their gains, and the kernel of each."""

    rows: tuple[rows.Row, ...]
    gains: tuple[float, ...]
    kernels: tuple[str, ...]

    @property
    def suffice(self) -> bool:
        return (
            len(self.rows) >= POLICY.fewest_rows and len({*self.kernels}) >= POLICY.fewest_kernels
        )


def samples_of(trials: Iterable[Trial], log: str) -> Samples:
    """Return what can be learned from trials: those that were measured, by their features.

    Raises: StitchError, which names the log, if a trial's features are no row of numbers.
    """
    known = [each for each in trials if each.ns is not None and each.features is not None]
    try:
        read = tuple(rows.from_json(each.features) for each in known)
    except ValueError as error:
        remedy = "delete that trial, or use another log"
        raise StitchError(log, f"a trial has no features ({error})", remedy) from None
    return Samples(
        read,
        tuple(gain_of(each.ns, each.default_ns) for each in known),
        tuple(each.workload for each in known),
    )


def trained(samples: Samples, seed: int) -> GainModel:
    """Return a model of samples; the evaluator's word where there are too few."""
    if not samples.suffice:
        return GainModel()
    return GainModel.fitted(samples.rows, samples.gains, seed)


def judged(samples: Samples, seed: int, of: str) -> GainModel:
    """Return a model that knows how far it is off on unseen kernels, and `of` what it is made."""
    model = trained(samples, seed)
    if model.booster is None:
        return model
    return replace(model, error=held_out(samples, seed).error, of=of)


@dataclass(frozen=True)
class HeldOut:
    """How a model does on kernels that were left out of its training.

    `accuracy`: pairs of a kernel that it ranks right, 0.5 by chance. `error`: the root of the mean
    square of what its gains are off by, in powers of two. NaN of too few samples.
    """

    accuracy: float
    error: float


def held_out(samples: Samples, seed: int) -> HeldOut:
    """Return how models do of which each was not shown a quarter of the kernels.

    The quarters are of the kernels' keys in order, which are hashes.
    """
    if not samples.suffice:
        return HeldOut(math.nan, math.nan)
    order = sorted({*samples.kernels})
    fold_of = {kernel: place % POLICY.folds for place, kernel in enumerate(order)}
    folds = np.array([fold_of[kernel] for kernel in samples.kernels])
    predicted, gains = np.zeros(len(folds)), np.array(samples.gains)
    for fold in {*fold_of.values()}:
        (shown,), (hidden,) = np.nonzero(folds != fold), np.nonzero(folds == fold)
        model = GainModel.fitted([samples.rows[n] for n in shown], gains[shown], seed)
        predicted[hidden] = model.predict([samples.rows[n] for n in hidden])
    error = float(np.sqrt(np.mean((predicted - gains) ** 2)))
    return HeldOut(rank_accuracy(predicted, gains, samples.kernels), error)
