"""Fit the minimax polynomials of `tir_schedules.vector_math` and print them as Python tuples.

Each fit is a Lawson iteration (weighted least squares whose weights grow where the error is
largest) in float64; coefficients are then rounded to their storage type one by one, lowest power
first, and the rest fitted again, so that rounding one is repaired by the next.
Source: Lawson, "Contributions to the theory of linear least maximum approximations", 1961.
"""

import argparse
import math
from collections.abc import Callable, Sequence

import numpy as np

Array = np.ndarray
LN2 = math.log(2.0)
POINTS = 3000


def nodes(low: float, high: float) -> Array:
    """Return Chebyshev points of [low, high], none of them exactly 0."""
    x = (low + high) / 2 - (high - low) / 2 * np.cos(np.pi * (np.arange(POINTS) + 0.5) / POINTS)
    return np.where(x == 0, 1e-9, x)


def minimax(x: Array, target: Array, weight: Array, powers: Sequence[int]) -> Array:
    """Return c that minimises max |weight * (sum c_k x**powers_k - target)|."""
    scale = np.max(np.abs(x))
    basis = np.stack([(x / scale) ** p for p in powers], axis=1) * weight[:, None]
    aim, lawson = target * weight, np.ones_like(x)
    best, best_error = np.zeros(len(powers)), np.inf
    for _ in range(300):
        root = np.sqrt(lawson)
        c = np.linalg.lstsq(basis * root[:, None], aim * root, rcond=None)[0]
        error = np.abs(basis @ c - aim)
        if error.max() < best_error:
            best, best_error = c, error.max()
        lawson *= error + 1e-30
        lawson /= lawson.sum()
    return best / scale ** np.array(powers, dtype=float)


def fit(
    name: str,
    interval: tuple[float, float],
    target: Callable[[Array], Array],
    weight: Callable[[Array], Array],
    degree: int,
    *,
    fixed: Sequence[float] = (),
    dtype: type = np.float32,
) -> None:
    """Print c of `sum c_k x**k ~ target`, its first coefficients given, highest power first."""
    x = nodes(*interval)
    coefficients = [float(c) for c in fixed]
    while len(coefficients) <= degree:
        rest = target(x) - sum(c * x**k for k, c in enumerate(coefficients))
        powers = range(len(coefficients), degree + 1)
        coefficients.append(float(dtype(minimax(x, rest, weight(x), powers)[0])))
    error = np.abs(weight(x) * (sum(c * x**k for k, c in enumerate(coefficients)) - target(x)))
    print(f"# {name}: degree {degree}, weighted error 2^{math.log2(error.max()):.1f}")
    print(f"({', '.join(repr(c) for c in reversed(coefficients))})\n")


def over(x: Array, function: Callable[[Array], Array], first: float) -> Array:
    """Return (function(x) - first * x) / x**2, by its own value away from 0 only."""
    return (function(x) - first * x) / (x * x)


def log2_erfc(t: Array) -> Array:
    return np.array([math.log2(math.erfc(v)) if v > 0 else 0.0 for v in t])


def erf(t: Array) -> Array:
    return np.array([math.erf(v) for v in t])


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    half = LN2 / 2 * 1.001
    for degree in (5, 6):
        fit("exp", (-half, half), np.exp, lambda r: np.exp(-r), degree, fixed=(1.0, 1.0))
        fit("exp2", (-0.5005, 0.5005), np.exp2, lambda r: np.exp2(-r), degree, fixed=(1.0,))
    for degree in (4, 5):
        fit(
            "expm1(2r)/r",
            (-half / 2, half / 2),
            lambda r: np.expm1(2 * r) / r,
            lambda r: r / np.expm1(2 * r),
            degree,
            fixed=(2.0,),
        )
        fit(
            "(2^r-1)/r",
            (-0.5005, 0.5005),
            lambda r: np.expm1(r * LN2) / r,
            lambda r: r / np.expm1(r * LN2),
            degree,
        )
    for degree in (6, 7, 8):
        fit(
            "log1p(r) = r + r^2 Q(r)",
            (math.sqrt(0.5) - 1, math.sqrt(2.0) - 1),
            lambda r: over(r, np.log1p, 1.0),
            lambda r: r * r / np.log1p(r),
            degree,
            fixed=(-0.5,),
        )
    for degree in (7, 8, 9, 10):
        fit(
            "log2(erfc(t))/t",
            (0.0, 4.0),
            lambda t: log2_erfc(t) / t,
            lambda t: LN2 * t * np.exp2(log2_erfc(t)) / erf(t),
            degree,
        )
    for degree in (11, 12, 13):
        fit(
            "log2(1+r)/r",
            (math.sqrt(0.5) - 1, math.sqrt(2.0) - 1),
            lambda r: np.log1p(r) / LN2 / r,
            lambda r: LN2 * r / np.log1p(r),
            degree,
            dtype=np.float64,
        )
    for degree in (6, 7):
        fit(
            "exp2 f64",
            (-0.5, 0.5),
            np.exp2,
            lambda r: np.exp2(-r),
            degree,
            fixed=(1.0,),
            dtype=np.float64,
        )


if __name__ == "__main__":
    main()
