"""Powers of two by which the figures of a profile predict measured times best.

Gauss-Newton steps on the logarithms of times: what is off by twice counts alike of long and short
kernels. Each kernel weighs as much, however many of its plans were measured, far errors count
linearly (Huber, Ann. Math. Statist. 35, 1964), and a figure that the kernels tell little of stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Predict = Callable[[Sequence[float]], np.ndarray]  # of powers: predicted times in powers of two


@dataclass(frozen=True)
class FitPolicy:
    """`plans`: of a kernel, more tell nothing new. `fewest`: kernels, of fewer none is learned.

    `pull` is the error a figure off by two counts as; `far` errors count linearly from there."""

    plans: int = 24
    fewest: int = 8
    pull: float = 0.3
    far: float = 0.5
    most: float = 2.0  # powers of two that a figure may change by
    step: float = 0.125  # by which slopes are told
    rounds: int = 3
    reweighted: int = 8
    folds: int = 4


POLICY = FitPolicy()


@dataclass(frozen=True)
class Fit:
    """`powers` by which the figures change, and how times are off in the root of mean squares.

    `before`, `after`, and `unseen`, of kernels that were left out of a fit by the others, in powers
    of two.
    """

    powers: np.ndarray
    before: float
    after: float
    unseen: float


def fit(
    predict: Predict,
    measured: np.ndarray,
    kernels: Sequence[str],
    figures: int,
    policy: FitPolicy = POLICY,
) -> Fit:
    """Fit `figures` powers to measured times, in powers of two; `kernels` names each one's."""
    weights, zero = _weights(kernels), np.zeros(figures)
    powers, first = zero, _slopes(predict, zero, policy.step)
    slopes = first
    for _ in range(policy.rounds):
        errors = predict(powers) - measured
        powers = _solved(errors - slopes @ powers, slopes, weights, policy)
        slopes = _slopes(predict, powers, policy.step)
    before, after = predict(zero) - measured, predict(powers) - measured
    unseen = _unseen(before, first, weights, kernels, policy)
    return Fit(powers, *(_size(errors, weights) for errors in (before, after, unseen)))


def _slopes(predict: Predict, at: np.ndarray, step: float) -> np.ndarray:
    columns = []
    for figure in range(len(at)):
        apart = np.zeros(len(at))
        apart[figure] = step
        columns.append((predict(at + apart) - predict(at - apart)) / (2 * step))
    return np.stack(columns, axis=1)


def _solved(
    errors: np.ndarray, slopes: np.ndarray, weights: np.ndarray, policy: FitPolicy
) -> np.ndarray:
    """Return the powers that make `errors + slopes @ powers` least, by reweighted least squares."""
    powers = np.zeros(slopes.shape[1])
    pull = policy.pull**2 * np.eye(len(powers))
    for _ in range(policy.reweighted):
        left = np.abs(errors + slopes @ powers)
        each = weights * np.minimum(1.0, policy.far / np.maximum(left, 1e-9))
        square = slopes.T @ (each[:, None] * slopes) + pull
        powers = np.linalg.solve(square, -slopes.T @ (each * errors))
        powers = np.clip(powers, -policy.most, policy.most)
    return powers


def _unseen(
    errors: np.ndarray,
    slopes: np.ndarray,
    weights: np.ndarray,
    kernels: Sequence[str],
    policy: FitPolicy,
) -> np.ndarray:
    """Return the errors of each fold of kernels after a fit of the others, to first order."""
    order = {kernel: place for place, kernel in enumerate(sorted({*kernels}))}
    folds = np.array([order[kernel] % policy.folds for kernel in kernels])
    left = errors.copy()
    for fold in {*folds.tolist()}:
        shown, hidden = folds != fold, folds == fold
        if shown.any():
            powers = _solved(errors[shown], slopes[shown], weights[shown], policy)
            left[hidden] += slopes[hidden] @ powers
    return left


def _weights(kernels: Sequence[str]) -> np.ndarray:
    counts = {kernel: kernels.count(kernel) for kernel in {*kernels}}
    return np.array([1.0 / counts[kernel] for kernel in kernels])


def _size(errors: np.ndarray, weights: np.ndarray) -> float:
    return float(np.sqrt(np.average(errors**2, weights=weights)))
