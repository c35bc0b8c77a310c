"""Who runs when, and how often: rounds in a new order each, turns of equal time, an end."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .child import Died

SLOW_FACTOR = 10
SLOW_RUNS = 3
_WARM_BELOW_NS = 100_000_000


@dataclass(frozen=True)
class Pace:
    """`rounds` at most, each turn at most `turn_s` and `turn_runs` calls."""

    rounds: int = 10
    turn_s: float = 0.2
    turn_runs: int = 200


@dataclass
class Player:
    """One row to time: `measure(runs, seconds, warm)` returns the times of its calls in ns."""

    name: str
    estimate_ns: float
    measure: Callable[[int, float, bool], list[int]]
    yardstick: bool = False
    rounds: list[list[int]] = field(default_factory=list)
    dropped: str | None = None

    @property
    def runs(self) -> int:
        return sum(map(len, self.rounds))

    @property
    def expected_ns(self) -> float:
        """The median so far: a first estimate may have met a busy machine."""
        if not self.rounds:
            return self.estimate_ns
        return statistics.median(statistics.median(samples) for samples in self.rounds)


def play(
    players: Sequence[Player],
    seconds: float,
    pace: Pace,
    rng: random.Random,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Fill every player's `rounds` within about `seconds`.

    A player ten times slower than the fastest gets three runs in all, and one that dies is dropped
    with the reason. Each player that still fits gets its first run before time is up.
    """
    end = clock() + seconds
    for number in range(pace.rounds):
        order = [player for player in players if player.dropped is None]
        rng.shuffle(order)
        for player in order:
            slow = is_slow(player, players)
            left = end - clock()
            if slow and player.runs >= SLOW_RUNS:
                continue
            if player.expected_ns / 1e9 > left:
                continue
            share = left / (len(order) * (pace.rounds - number))
            runs = 1 if slow else pace.turn_runs
            warm = player.expected_ns < _WARM_BELOW_NS or not slow
            try:
                samples = player.measure(runs, min(share, pace.turn_s), warm)
            except Died as death:
                player.dropped = str(death)
            else:
                player.rounds.append(samples)


def is_slow(player: Player, players: Sequence[Player]) -> bool:
    """Return whether the player takes over ten times as long as the fastest of all."""
    racing = [each.expected_ns for each in players if not each.yardstick]
    return bool(racing) and player.expected_ns > SLOW_FACTOR * min(racing)
