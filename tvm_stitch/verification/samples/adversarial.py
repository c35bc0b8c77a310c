"""Inputs for one kernel that look for what real activations seldom show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

Arrays = list[np.ndarray]
_EVERY = 10  # one element of so many is special
_Make = Callable[[np.random.Generator, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Kind:
    """Inputs of one kind, in words, and the arrays."""

    words: str
    arrays: Arrays


def adversarial(inputs: Sequence[np.ndarray], weights: Sequence[bool], seed: int) -> Iterator[Kind]:
    """Yield other inputs of the same shapes; `weights` stay, and integers are as they were or zero.

    Where a number is infinite or NaN it is so in one input at a time, among random ones.
    """
    for number, (words, make) in enumerate(_EVERYWHERE.items()):
        rng = np.random.default_rng((seed, number))
        made = [a if w else make(rng, a) for a, w in zip(inputs, weights, strict=True)]
        yield Kind(words, made)
    floats = [n for n, a in enumerate(inputs) if _is_float(a) and a.size and not weights[n]]
    for number, (words, make) in enumerate(_IN_ONE.items()):
        for place in floats:
            rng = np.random.default_rng((seed, number, place))
            made = [a if w else _normal(rng, a) for a, w in zip(inputs, weights, strict=True)]
            made[place] = make(rng, made[place])
            yield Kind(f"{words} in input {place}", made)


def _is_float(array: np.ndarray) -> bool:
    return array.dtype.kind in "fV"


def _finite(make: Callable[[np.random.Generator, np.ndarray, float], np.ndarray]) -> _Make:
    """Make floats of a shape, within what their dtype holds, and leave other arrays."""

    def made(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
        if not _is_float(array):
            return array
        largest = float(ml_dtypes.finfo(array.dtype).max)
        values = make(rng, np.zeros(array.shape), largest)
        return np.clip(values, -largest, largest).astype(array.dtype)

    return made


def _zeros(_rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """An index of zero is in bounds wherever there is a valid one."""
    return np.zeros_like(array)


def _normal(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    if array.dtype == np.bool_:
        return rng.integers(0, 2, array.shape).astype(np.bool_)
    return rng.standard_normal(array.shape).astype(array.dtype) if _is_float(array) else array


@_finite
def _level_rows(rng: np.random.Generator, zeros: np.ndarray, _largest: float) -> np.ndarray:
    return zeros + rng.standard_normal((*zeros.shape[:-1], 1)[: zeros.ndim])


@_finite
def _equal_rows(rng: np.random.Generator, zeros: np.ndarray, _largest: float) -> np.ndarray:
    return zeros + rng.standard_normal(zeros.shape[-1:])


@_finite
def _far_from_zero(rng: np.random.Generator, zeros: np.ndarray, _largest: float) -> np.ndarray:
    return 100.0 + rng.standard_normal(zeros.shape)


@_finite
def _large(rng: np.random.Generator, zeros: np.ndarray, largest: float) -> np.ndarray:
    return rng.standard_normal(zeros.shape) * min(1e4, largest**0.5)


@_finite
def _huge(rng: np.random.Generator, zeros: np.ndarray, largest: float) -> np.ndarray:
    """Sums of thousands of squares are still finite.

    What a sum of infinite products is, is a matter of order, and of whether they are rounded.
    """
    return rng.standard_normal(zeros.shape) * largest**0.44


def _denormal(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    if not _is_float(array):
        return array
    tiny = float(ml_dtypes.finfo(array.dtype).tiny)
    return (rng.uniform(-1.0, 1.0, array.shape) * tiny).astype(array.dtype)


_EVERYWHERE: dict[str, _Make] = {
    "random numbers": _normal,
    "zeros": _zeros,
    "numbers equal along each row": _level_rows,
    "equal rows": _equal_rows,
    "numbers around 100": _far_from_zero,
    "large numbers": _large,
    "numbers whose squares are almost infinite": _huge,
    "denormal numbers": _denormal,
}


def _with(value: float, chosen: Callable[[np.random.Generator, np.ndarray], np.ndarray]) -> _Make:
    def made(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
        return np.where(chosen(rng, array), np.array(value, array.dtype), array)

    return made


def _scattered(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    return rng.integers(0, _EVERY, array.shape) == 0


def _rows(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """Choose half of the rows, the first always."""
    shape = (*array.shape[:-1], 1)[: array.ndim]
    chosen = rng.integers(0, 2, shape) == 0
    chosen.reshape(-1)[:1] = True
    return np.broadcast_to(chosen, array.shape)


def _one(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    chosen = np.zeros(array.size, bool)
    chosen[rng.integers(array.size)] = True
    return chosen.reshape(array.shape)


_IN_ONE: dict[str, _Make] = {
    "-inf in places": _with(-np.inf, _scattered),
    "rows of -inf": _with(-np.inf, _rows),
    "a NaN": _with(np.nan, _one),
    "an infinity": _with(np.inf, _one),
}
