"""Time variants of one model in one process: in turns, in a new order each round."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import tvm

from tvm_stitch.runtime.model import Model

_TURN_S = 0.05
_WARM = 3


@dataclass(frozen=True)
class Timed:
    """Median over rounds of each round's median, in us; `spread` is the rounds' deviation by it."""

    us: float
    spread: float


def interleaved(
    models: Mapping[str, Model], inputs: Mapping[str, np.ndarray], seconds: float, seed: int = 0
) -> dict[str, Timed]:
    """Return the time of a call of each model on resident tensors, in about `seconds`."""
    tensors = [tvm.runtime.tensor(np.ascontiguousarray(array)) for array in inputs.values()]
    rng, rounds = random.Random(seed), {name: [] for name in models}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or min(map(len, rounds.values())) < 3:
        for name in rng.sample(list(models), len(models)):
            rounds[name].append(_turn(models[name], tensors))
    return {name: _summary(samples) for name, samples in rounds.items()}


def _turn(model: Model, tensors: list) -> float:
    for _ in range(_WARM):
        model(*tensors)
    samples: list[float] = []
    while not samples or (sum(samples) < _TURN_S and len(samples) < 200):
        start = time.perf_counter()
        model(*tensors)
        samples.append(time.perf_counter() - start)
    return statistics.median(samples) * 1e6


def _summary(samples: list[float]) -> Timed:
    middle = statistics.median(samples)
    return Timed(middle, statistics.median(abs(s - middle) for s in samples) / middle)
