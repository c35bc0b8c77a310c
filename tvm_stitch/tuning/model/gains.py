"""Predicts the gain of a plan over the default plan of its kernel, in powers of two.

Relative gains make kernels of all sizes one problem, as MetaSchedule's and Ansor's normalised
throughputs do (Ansor, OSDI 2020, section 5.2); a first guess is the evaluator's own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import xgboost

from . import booster_file
from .learning_policy import POLICY
from .rows import PREDICTED, Row, value_of

_WORST = -2.0  # what is four times as slow as the default need not be told from what is ten times
_SETTINGS = {
    "objective": "reg:squarederror",
    "tree_method": "hist",
    "max_bin": 64,
    "max_depth": POLICY.depth,
    "eta": 0.1,
    "subsample": 0.8,
    "colsample_bytree": 0.5,
    "min_child_weight": 2,
    "nthread": 1,  # two that wait for each other on a busy machine take four times as long
}


def gain_of(ns: float, default_ns: float) -> float:
    """Return the gain to learn: 1 is twice as fast as the default, 0 as fast."""
    return max(_WORST, math.log2(default_ns / ns))


@dataclass(frozen=True)
class GainModel:
    """A sum of trees over the features of rows, by their names; None predicts as the evaluator.

    `own`: trees for what the others leave of the rows of one kernel, by all features of these.
    `error`: what gains of kernels that it was not shown are off by, the root of the mean square in
    powers of two, infinite if that was not tried. `of`: the state of the log that it is made of.
    """

    booster: xgboost.Booster | None = None
    error: float = math.inf
    of: str = ""
    own: xgboost.Booster | None = None

    @classmethod
    def fitted(
        cls, rows: Sequence[Row], gains: Sequence[float], seed: int, rounds: int = POLICY.rounds
    ) -> GainModel:
        """Return a model of rows and their gains."""
        names = sorted({name for row in rows for name in row})
        data = _data(rows, names, gains)
        return cls(xgboost.train({**_SETTINGS, "seed": seed}, data, rounds))

    @classmethod
    def load(cls, path: Path) -> GainModel:
        """Read a model that `save` wrote. Raises: StitchError if the file is no such model."""
        booster, facts = booster_file.load(path)
        return cls(booster, facts.error, facts.of)

    def save(self, path: Path) -> None:
        booster_file.save(self.booster, booster_file.Facts(self.error, self.of), path)

    def refined(self, rows: Sequence[Row], gains: Sequence[float], seed: int) -> GainModel:
        """Return the model with trees more, for what it leaves of rows of one kernel."""
        if self.booster is None:
            return self.fitted(rows, gains, seed)
        left = np.asarray(gains) - self.predict(rows)
        own = GainModel.fitted(rows, left, seed, POLICY.more_rounds).booster
        return replace(self, own=own)

    def predict(self, rows: Sequence[Row]) -> np.ndarray:
        """Return the gain of each row."""
        if self.booster is None:
            return np.array([-row.get(PREDICTED, 0.0) for row in rows])
        found = self.booster.predict(_data(rows, self.booster.feature_names))
        if self.own is None:
            return found
        return found + self.own.predict(_data(rows, self.own.feature_names))

    def importances(self) -> dict[str, float]:
        """Return how much each feature that is used explains, the shares of all, largest first."""
        found = {} if self.booster is None else self.booster.get_score(importance_type="total_gain")
        total = sum(found.values()) or 1.0
        ordered = sorted(found.items(), key=lambda item: -item[1])
        return {name: value / total for name, value in ordered}


def rank_accuracy(
    predicted: Sequence[float], gains: Sequence[float], kernels: Sequence[str]
) -> float:
    """Return how many pairs of one kernel are in the right order: 1 all, 0.5 by chance.

    Pairs that differ by less than 2 % are left out; NaN if there is none.
    """
    right = pairs = 0
    groups: Mapping[str, list[int]] = {k: [] for k in kernels}
    for place, kernel in enumerate(kernels):
        groups[kernel].append(place)
    guess, truth = np.asarray(predicted), np.asarray(gains)
    for places in groups.values():
        apart = truth[places][:, None] - truth[places][None, :]
        told = guess[places][:, None] - guess[places][None, :]
        judged = apart > math.log2(1.02)
        pairs += int(judged.sum())
        right += int((judged & (told > 0)).sum())
    return right / pairs if pairs else math.nan


def _data(
    rows: Sequence[Row], names: Sequence[str], gains: Sequence[float] | None = None
) -> xgboost.DMatrix:
    table = np.array([[value_of(row, name) for name in names] for row in rows], np.float32)
    table = table.reshape(len(rows), len(names))
    return xgboost.DMatrix(table, gains, feature_names=list(names), nthread=1)
