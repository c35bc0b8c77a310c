"""A model of the gains that a log has of a device, and how well it ranks what it has not seen."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ..log import Trial
from . import rows
from .gains import GainModel, gain_of, rank_accuracy

_FEWEST_ROWS, _FEWEST_KERNELS = 100, 3  # of less a model learns one kernel by heart
_FOLDS = 4


@dataclass(frozen=True)
class Samples:
    """Rows of plans with their gains, and the kernel of each."""

    rows: tuple[rows.Row, ...]
    gains: tuple[float, ...]
    kernels: tuple[str, ...]

    @property
    def suffice(self) -> bool:
        return len(self.rows) >= _FEWEST_ROWS and len({*self.kernels}) >= _FEWEST_KERNELS


def samples_of(trials: Iterable[Trial]) -> Samples:
    """Return what can be learned from trials: those that were measured, by their features.

    Raises: ValueError if a trial's features are no row of numbers.
    """
    known = [each for each in trials if each.ns is not None and each.features is not None]
    return Samples(
        tuple(rows.from_json(each.features) for each in known),
        tuple(gain_of(each.ns, each.default_ns) for each in known),
        tuple(each.workload for each in known),
    )


def trained(samples: Samples, seed: int) -> GainModel:
    """Return a model of samples; the evaluator's word where there are too few."""
    if not samples.suffice:
        return GainModel()
    return GainModel.fitted(samples.rows, samples.gains, seed)


def held_out_accuracy(samples: Samples, seed: int) -> float:
    """Return the rank accuracy on kernels that were left out of the training, NaN of too few.

    Kernels are left out a quarter at a time, by their keys: those are hashes.
    """
    if not samples.suffice:
        return math.nan
    order = sorted({*samples.kernels})
    predicted = [0.0] * len(samples.rows)
    for fold in range(_FOLDS):
        left_out = {*order[fold::_FOLDS]}
        inside = [n for n, kernel in enumerate(samples.kernels) if kernel not in left_out]
        outside = [n for n, kernel in enumerate(samples.kernels) if kernel in left_out]
        if not inside or not outside:
            continue
        model = GainModel.fitted(
            [samples.rows[n] for n in inside], [samples.gains[n] for n in inside], seed
        )
        for n, guess in zip(
            outside, model.predict([samples.rows[n] for n in outside]), strict=True
        ):
            predicted[n] = float(guess)
    return rank_accuracy(predicted, samples.gains, samples.kernels)
