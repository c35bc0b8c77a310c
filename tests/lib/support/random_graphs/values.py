"""Values of a random graph: what float64 says, what NumPy in the value's dtype says, and noise.

Each value has several lanes: the float64 reference, NumPy in the value's own dtype, and float64
with a rounding error of that dtype after each op. Where the lanes agree the answer is known; how
far they lie apart is how far rounding alone may take a right answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

NOISY_LANES = 3
LANES = 2 + NOISY_LANES
HALF = ("float16", "bfloat16")
FLOATS = ("float32", "float64", *HALF)
INTEGERS = ("int32", "int64")
EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 3e38, -3e38, 88.8, -103.0)

Function = Callable[..., np.ndarray]


@dataclass(frozen=True)
class Composite:
    """A function of several steps; `noisy` rounds in one of them, by a share of what that makes.

    Where all elements of a row are rounded alike a later mean does not take it out.
    """

    exact: Function
    noisy: Callable[[float], Function]

    def __call__(self, *args: np.ndarray) -> np.ndarray:
        return self.exact(*args)


@dataclass(eq=False)
class Value:
    """A tensor of a graph. Float lanes are float64, others have the value's dtype.

    `exact`: every lane, and any right implementation, has the same numbers. `plain`: an input
    behind changes of layout, so that even the sign of its zeros is known.
    """

    name: str
    dtype: str
    lanes: tuple[np.ndarray, ...]
    exact: bool = True
    plain: bool = False

    @property
    def ref(self) -> np.ndarray:
        return self.lanes[0]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.ref.shape

    @property
    def rank(self) -> int:
        return self.ref.ndim

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS


def numpy_dtype(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def constant(name: str, array: np.ndarray, dtype: str) -> Value:
    """Return an input or initializer; `array` is rounded to `dtype` first."""
    array = _rounded(array, dtype) if dtype in FLOATS else np.asarray(array, dtype)
    return Value(name, dtype, (array,) * LANES, plain=True)


def layout(name: str, function: Function, args: Sequence[Value]) -> Value:
    """Apply a function that moves elements."""
    value = select(name, function, args, args[0].dtype)
    value.plain = all(arg.plain for arg in args)
    return value


def select(name: str, function: Function, args: Sequence[Value], dtype: str) -> Value:
    """Apply a function whose results need no rounding: a choice among its arguments, a test."""
    if all(arg.exact for arg in args):
        return Value(name, dtype, (_call(function, [a.ref for a in args]),) * LANES)
    lanes = [_call(function, [a.lanes[k] for a in args]) for k in range(LANES)]
    return Value(name, dtype, tuple(lanes), exact=False)


def rounded(
    name: str,
    function: Function,
    args: Sequence[Value],
    dtype: str,
    *,
    noise: np.random.Generator,
    accumulates: bool = False,
) -> Value:
    """Apply a function whose results are rounded to the float `dtype`.

    `accumulates`: it sums its arguments, so their terms are rounded on the way.
    """
    native = _rounded(_call(function, [_native(a) for a in args]), dtype)
    lanes = [_call(function, [a.ref for a in args]), native]
    for lane in range(2, LANES):
        terms = [a.lanes[lane] for a in args]
        if accumulates:
            terms = [_jitter(term, dtype, noise) for term in terms]
        inside = function.noisy(EPSILON[dtype]) if isinstance(function, Composite) else function
        lanes.append(_jitter(_call(inside, terms), dtype, noise))
    return Value(name, dtype, tuple(lanes), exact=False)


def finite(value: Value) -> np.ndarray:
    """Return the magnitudes of the finite elements."""
    return np.abs(value.ref[np.isfinite(value.ref)])


def largest(value: Value) -> float:
    return float(finite(value).max(initial=0.0))


def away_from_zero(value: Value) -> bool:
    """Return whether rounding cannot turn an element into zero or change its sign."""
    return value.plain or float(finite(value).min(initial=1.0)) >= 0.01


def _call(function: Function, args: Sequence[np.ndarray]) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(function(*args))


def _native(value: Value) -> np.ndarray:
    """Return the NumPy lane in the dtype it is computed in: half precision in float32."""
    lane = value.lanes[1]
    if value.is_float:
        return lane.astype("float64" if value.dtype == "float64" else "float32")
    return lane


def _rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(array).astype(numpy_dtype(dtype)).astype(np.float64)


def _jitter(array: np.ndarray, dtype: str, noise: np.random.Generator) -> np.ndarray:
    array = np.asarray(array, np.float64)
    with np.errstate(all="ignore"):
        return array * (1 + EPSILON[dtype] * noise.uniform(-1, 1, array.shape))
