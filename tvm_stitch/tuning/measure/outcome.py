"""What a candidate took, and how long it may take to find out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Pace:
    """How candidates are timed: `rounds` in a new order each, `slice_ns` of calls a turn.

    `warm_ns` of calls go before a turn; one reading of the clock is of at least `clock_ns` of
    calls. One that takes `slow` times as long as the default in a round is not timed again. A
    kernel whose buffers fill a `cached` part of the last cache goes through copies of them that
    fill it `streamed` times: what streams finds none of them cached. Of a model's weights it goes
    through at most `copies`. Two libraries of what is confirmed that are more than `differing`
    times as fast as each other need a third.
    """

    rounds: int = 5
    slice_ns: int = 2_000_000
    warm_ns: int = 300_000
    clock_ns: int = 20_000
    slow: float = 1.5
    cached: float = 0.5
    streamed: float = 4.0
    copies: int = 64
    differing: float = 1.03

    def copied(
        self,
        nbytes: int,
        weight_bytes: int,
        of_model: int,
        cache_bytes: int,
        weights: Sequence[int],
    ) -> tuple[int, Sequence[int] | None]:
        """Return through how many copies a part of a model goes, and of which inputs; None: of all.

        Of `nbytes` that it reads and writes `weight_bytes` are weights, in these places.
        """
        if (sets := self.sets(nbytes, cache_bytes)) > 1:
            return sets, None
        return self.weight_sets(weight_bytes, of_model, cache_bytes), weights

    def sets(self, nbytes: int, cache_bytes: int) -> int:
        """Return how many copies of `nbytes` of buffers a kernel goes through."""
        if nbytes <= self.cached * cache_bytes:
            return 1
        return math.ceil(self.streamed * cache_bytes / nbytes) + 1

    def weight_sets(self, nbytes: int, of_model: int, cache_bytes: int) -> int:
        """Return how many copies of `nbytes` of weights a kernel of a model goes through.

        Between two calls in a model all its other weights are read.
        """
        most = min(of_model, self.streamed * cache_bytes)
        return max(1, min(self.copies, math.ceil(most / nbytes))) if nbytes else 1


@dataclass(frozen=True)
class Patience:
    """Seconds until a worker that does not answer is ended: another process may have the CPUs.

    `join`: seconds until a tracker has to have a machine, for a server may be starting. `tries`: of
    a candidate, on machines that are lost over it.
    """

    start: float = 300.0
    build: float = 120.0
    run: float = 60.0
    join: float = 60.0
    tries: int = 3


PACE, PATIENCE = Pace(), Patience()
# Calls of a GPU are waited for once for as many as take so long: the wait is itself some 10 us.
GPU_PACE = Pace(slice_ns=3_000_000, warm_ns=1_000_000, clock_ns=1_000_000)


@dataclass(frozen=True)
class Outcome:
    """What a candidate took: ns of a call, those of the default in the same rounds, or an error.

    `noise` is half the distance of the quartiles of its rounds over their median, None of one.
    """

    decisions: Any
    ns: float | None = None
    default_ns: float | None = None
    noise: float | None = None
    runs: int = 0
    error: str | None = None

    @property
    def gain(self) -> float:
        """How many times as fast as the default; 0 of what failed."""
        return 0.0 if self.ns is None else self.default_ns / self.ns

    @property
    def log_gain(self) -> float:
        """The gain in powers of two; -inf of what failed."""
        return -math.inf if self.ns is None else math.log2(self.gain)


def middle(*three: Outcome) -> Outcome:
    """Return the outcome of the same decisions that is neither best nor worst, of all runs."""
    _, found, _ = sorted(three, key=lambda each: each.gain)
    return replace(found, runs=sum(each.runs for each in three))


def lower_median(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the median by gain of outcomes of the same decisions, of all runs.

    Of an even number it is the one that gained less; a failed one if there is any.
    """
    order = sorted(outcomes, key=lambda each: each.gain)
    if order[0].ns is None:
        return order[0]
    found = order[(len(order) - 1) // 2]
    return replace(found, runs=sum(each.runs for each in outcomes))


def outcome_of(decisions: Any, rounds: Sequence[float], default: Sequence[float]) -> Outcome:
    """Return the outcome of rounds, in ns of a call, and the default's; slow ones end early.

    A busy second slows a candidate and the default alike: their ratio is what is kept.
    """
    ratios = [own / other for own, other in zip(rounds, default, strict=False)]
    ratio, usual, noise = statistics.median(ratios), statistics.median(default), None
    if len(ratios) > 1:
        low, _, high = statistics.quantiles(ratios, n=4)
        noise = (high - low) / 2 / ratio
    return Outcome(decisions, ratio * usual, usual, noise, len(ratios))
