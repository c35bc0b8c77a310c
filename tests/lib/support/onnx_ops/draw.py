"""What random graphs are drawn of."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

FLOATS = ("float32", "float64", "float16")
INTS = ("int32", "int64", "int8", "uint8")
EXTENTS = (1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 33)
MOST_ELEMENTS = 1 << 14


@dataclass(frozen=True)
class Operand:
    """Another operand of a node: what it holds, None if it is left out; constants are stored."""

    array: np.ndarray | None
    constant: bool = False


@dataclass(frozen=True)
class Node:
    """An operator on the value before it and on operands; `first` is that value's position.

    `exact` says whether exact operands make exact results: no rounding is in it.
    """

    op: str
    operands: Sequence[Operand] = ()
    attrs: dict = field(default_factory=dict)
    outputs: int = 1
    exact: bool = False
    first: int = 0


@dataclass(frozen=True)
class Operator:
    """Makes nodes on a value of some types, or None where one is not applicable.

    `steps` jump: they are given exact values alone.
    """

    make: Callable[[Draw, np.ndarray], Node | None]
    dtypes: tuple[str, ...]
    least_rank: int = 0
    steps: bool = False


class Draw(random.Random):
    """A source of random choices and arrays."""

    def maybe(self, chance: float = 0.5) -> bool:
        return self.random() < chance

    def shape(self, least: int = 0, most: int = 5) -> tuple[int, ...]:
        """Return a shape of some rank, of no more than MOST_ELEMENTS."""
        rank = self.randint(least, most)
        while True:
            shape = tuple(self.choice(EXTENTS) for _ in range(rank))
            if math.prod(shape) <= MOST_ELEMENTS:
                return shape

    def array(self, shape: Sequence[int], dtype: str, low: float = -3, high: float = 3):
        """Return numbers between `low` and `high`."""
        rng = np.random.default_rng(self.getrandbits(32))
        if dtype == "bool":
            return rng.random(tuple(shape)) < 0.5
        if np.dtype(dtype).kind in "iu":
            low = max(low, 0) if dtype.startswith("u") else low
            return rng.integers(int(low), int(high) + 1, tuple(shape)).astype(dtype)
        return rng.uniform(low, high, tuple(shape)).astype(dtype)

    def broadcast(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return a shape that broadcasts to another."""
        drawn = [1 if self.maybe(0.3) else extent for extent in shape]
        return tuple(drawn[self.randint(0, len(drawn)) if self.maybe(0.4) else 0 :])

    def axis(self, rank: int) -> int:
        """Return an axis, negative or not."""
        return self.randrange(-rank, rank)

    def axes(self, rank: int, least: int = 1) -> list[int]:
        """Return some axes, each once, negative or not."""
        chosen = self.sample(range(rank), self.randint(least, rank))
        return [a - rank if self.maybe(0.3) else a for a in chosen]

    def other(self, array: np.ndarray, **bounds: float) -> Operand:
        """Return an operand that broadcasts with an array, of its type."""
        shape = self.broadcast(array.shape)
        return Operand(self.array(shape, str(array.dtype), **bounds), self.maybe())


def ints(*values: int) -> Operand:
    """Return a constant list of int64."""
    return Operand(np.array(values, np.int64), True)
