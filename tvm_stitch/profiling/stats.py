"""Medians and spread over rounds, geometric means, and how far two outputs are apart."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np


@dataclass(frozen=True)
class Timing:
    """Microseconds of one call: the median and quartiles of the rounds' medians, the least of all.

    A shared machine is slow for seconds at a time: a round is one sample of its mood, so spread is
    told between rounds and not between the calls inside one.
    """

    median_us: float
    min_us: float
    q1_us: float
    q3_us: float
    rounds: int
    runs: int

    def to_json(self) -> dict[str, float]:
        return asdict(self)


def summarize(rounds: Sequence[Sequence[int]]) -> Timing | None:
    """Return the timing of calls in ns, one sequence a round; None where nothing was measured."""
    medians = [statistics.median(samples) / 1e3 for samples in rounds if samples]
    if not medians:
        return None
    q1, median, q3 = np.percentile(medians, [25, 50, 75])
    return Timing(
        median_us=float(median),
        min_us=min(min(samples) for samples in rounds if samples) / 1e3,
        q1_us=float(q1),
        q3_us=float(q3),
        rounds=len(medians),
        runs=sum(len(samples) for samples in rounds),
    )


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean of positive values; NaN of none."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def difference(got: Sequence[np.ndarray], ref: Sequence[np.ndarray]) -> float:
    """Return the worst max|got - ref| / max|ref| of the output pairs.

    NaN and infinities must be at the same places, with the same signs: inf is returned otherwise,
    as for a different number or shape of outputs.
    """
    if [g.shape for g in got] != [r.shape for r in ref]:
        return math.inf
    return max((_pair_difference(g, r) for g, r in zip(got, ref, strict=True)), default=0.0)


def _pair_difference(got: np.ndarray, ref: np.ndarray) -> float:
    got, ref = got.astype(np.float64), ref.astype(np.float64)
    finite = np.isfinite(ref)
    if not np.array_equal(got[~finite], ref[~finite], equal_nan=True):
        return math.inf
    got, ref = got[finite], ref[finite]
    if not ref.size:
        return 0.0
    gap = float(np.max(np.abs(got - ref)))
    if math.isnan(gap) or math.isinf(gap):
        return math.inf
    scale = float(np.max(np.abs(ref)))
    return gap / scale if scale else gap
