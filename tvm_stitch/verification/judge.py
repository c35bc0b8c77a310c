"""When a kernel's result counts as wrong.

A result is right within a bound on its distance from the same operators in float64. Where it is
not, the operators one by one in the model's own dtype, and in float64 on inputs that differ in
their last digit, tell what such numbers can be: how far off they are may a kernel be too, times
`_SLACK`; where they are infinite, NaN or another integer it may be so too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

# Of |ref| + max|ref|. Half precision is computed in float32 and rounded where it leaves a kernel.
_BOUND = {
    "float64": 1e-12,
    "float32": 1e-5,
    "float16": float(ml_dtypes.finfo(np.float16).eps),
    "bfloat16": float(ml_dtypes.finfo(ml_dtypes.bfloat16).eps),
}
# One order of summation may be so much worse than another.
_SLACK = 8.0

Alternatives = Callable[[], Iterator[list[np.ndarray]]]


@dataclass(frozen=True)
class Worst:
    """The worst element of result number `result`."""

    result: int
    place: tuple[int, ...]
    got: float
    expected: float
    allowed: float
    count: int

    def __str__(self) -> str:
        place = ", ".join(map(str, self.place))
        which = f"result {self.result} at [{place}]"
        if self.allowed == 0.0:
            return f"{which} is {self.got}, not {self.expected}; {self.count} are wrong"
        off = abs(self.got - self.expected)
        return (
            f"{which} is {self.got:.8g}, not {self.expected:.8g}: off by {off:.3g}, allowed "
            f"{self.allowed:.3g}; {self.count} are wrong"
        )


def worst_of(
    got: Sequence[np.ndarray],
    reference: Sequence[np.ndarray],
    dtypes: Sequence[str],
    alternatives: Alternatives,
) -> Worst | None:
    """Return the worst wrong element of a kernel's results, None if there is none.

    `reference` is in float64 where `got` is of floats. `alternatives` yields other results that
    the same operators may have, of which as few are made as are needed.
    """
    judged = [
        _Judged(number, *each)
        for number, each in enumerate(zip(got, reference, dtypes, strict=True))
    ]
    wrong = [each for each in judged if each.is_wrong]
    if wrong:
        for results in alternatives():
            for each in wrong:
                each.allow(results[each.number])
            wrong = [each for each in wrong if each.is_wrong]
            if not wrong:
                break
    return wrong[0].worst() if wrong else None


class _Judged:
    def __init__(self, number: int, got: np.ndarray, reference: np.ndarray, dtype: str) -> None:
        self.number, self._dtype = number, dtype
        self._floats = dtype in _BOUND
        self._got = _within(got.astype(np.float64), dtype) if self._floats else got
        self._reference = _within(reference, dtype) if self._floats else reference
        if self._floats:
            magnitude = np.abs(self._reference)
            finite = np.isfinite(magnitude)
            largest = magnitude[finite].max(initial=0.0)
            tiny = float(ml_dtypes.finfo(dtype).smallest_subnormal)
            with np.errstate(invalid="ignore", over="ignore"):
                self._allowed = _BOUND[dtype] * (magnitude + largest) + tiny
        self._wrong = ~self._agrees(self._reference)

    @property
    def is_wrong(self) -> bool:
        return bool(self._wrong.any())

    def _agrees(self, other: np.ndarray) -> np.ndarray:
        if not self._floats:
            return self._got == other
        same = (self._got == other) | (np.isnan(self._got) & np.isnan(other))
        finite = np.isfinite(self._got) & np.isfinite(other)
        with np.errstate(invalid="ignore", over="ignore"):
            return same | (finite & (np.abs(self._got - other) <= self._allowed))

    def allow(self, other: np.ndarray) -> None:
        """Let results be as far from the reference as `other` is, or be what it is."""
        if self._floats:
            other = _within(other.astype(np.float64), self._dtype)
            finite = np.isfinite(other) & np.isfinite(self._reference)
            noise = np.zeros(other.shape)
            np.subtract(other, self._reference, out=noise, where=finite)
            self._allowed = self._allowed + _SLACK * np.abs(noise).max(initial=0.0)
            self._wrong &= ~self._agrees(self._reference)
        self._wrong &= ~self._agrees(other)

    def worst(self) -> Worst:
        flat = np.flatnonzero(self._wrong)
        first = int(flat[0])
        if self._floats:
            got, reference = self._got.reshape(-1)[flat], self._reference.reshape(-1)[flat]
            with np.errstate(invalid="ignore", over="ignore"):
                excess = np.abs(got - reference) / self._allowed.reshape(-1)[flat]
            first = int(flat[np.argmax(np.where(np.isfinite(excess), excess, np.inf))])
        place = tuple(int(i) for i in np.unravel_index(first, self._got.shape))
        allowed = float(self._allowed[place]) if self._floats else 0.0
        got, expected = float(self._got[place]), float(self._reference[place])
        return Worst(self.number, place, got, expected, allowed, len(flat))


def _within(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return the numbers with those beyond the largest of `dtype` infinite.

    The largest itself too: TVM's maximum of nothing but infinities is that.
    """
    largest = float(ml_dtypes.finfo(dtype).max)
    return np.where(np.abs(array) >= largest, np.copysign(np.inf, array), array)
