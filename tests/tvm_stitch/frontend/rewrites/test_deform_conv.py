"""DeformConv as users compile it: halves, and offsets that lead nowhere."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import tvm_stitch
from support.frontend.case import Case, random

GIVEN = {"x": random(2, 4, 6, 5), "w": random(3, 4, 2, 2), "o": random(2, 8, 5, 4, low=-3, high=3)}


def case(given: dict[str, np.ndarray]) -> Case:
    return Case("DeformConv", "DeformConv", given, opset=19)


def reference(given: dict[str, np.ndarray]) -> np.ndarray:
    wide = {name: array.astype("f8") for name, array in given.items()}
    return ReferenceEvaluator(case(wide).model()).run(None, wide)[0]


def run(given: dict[str, np.ndarray]) -> np.ndarray:
    (got,) = tvm_stitch.compile(case(given).model(), threads=1).run(given).values()
    return got


def summed(given: dict[str, np.ndarray]) -> np.ndarray:
    """Return the sums in float64, a tap of a window at a time: ONNX's reference rounds places."""
    x, w, o = given.values()
    taps, out = w.shape[2:], o.shape[2:]
    offsets, made = o.reshape(len(o), *taps, 2, *out), np.zeros((len(x), len(w), *out))
    for n, i, j, p, q in np.ndindex(len(x), *out, *taps):
        row, column = offsets[n, p, q, :, i, j] + (i + p, j + q)
        low = int(np.floor(row)), int(np.floor(column))
        for a, b in itertools.product((low[0], low[0] + 1), (low[1], low[1] + 1)):
            if 0 <= a < x.shape[2] and 0 <= b < x.shape[3]:
                share = (1 - abs(row - a)) * (1 - abs(column - b))
                made[n, :, i, j] += w[:, :, p, q] @ x[n, :, a, b] * share
    return made


def test_doubles_are_looked_up_and_summed_in_doubles():
    given = {name: array.astype("f8") for name, array in GIVEN.items()}
    np.testing.assert_allclose(run(given), summed(given), rtol=1e-12, atol=1e-12)


def test_halves_are_looked_up_and_summed_in_floats():
    given = {name: array.astype("f2") for name, array in GIVEN.items()}
    got, want = run(given), reference(given)
    assert got.dtype == np.float16
    assert (np.abs(got - want) <= 1e-3 * (np.abs(want) + np.abs(want).max())).all()


def test_what_an_offset_of_no_number_sees_is_zero():
    far = GIVEN["o"].copy()
    far.ravel()[::7] = 1e6
    nowhere = far.copy()
    places = np.flatnonzero(far == 1e6)
    for start, value in enumerate((np.inf, -np.inf, np.nan)):
        nowhere.ravel()[places[start::3]] = value
    got, want = run({**GIVEN, "o": nowhere}), reference({**GIVEN, "o": far})
    assert (np.abs(got - want) <= 1e-5 * (np.abs(want) + np.abs(want).max())).all()


@pytest.mark.long
def test_an_infinite_pixel_stays_where_it_is_seen():
    image = GIVEN["x"].copy()
    image[0, 1, 0, 0] = np.inf
    got, want = run({**GIVEN, "x": image}), run(GIVEN)
    seen = ~np.isfinite(got)
    assert 0 < seen.sum() < seen.size
    np.testing.assert_array_equal(got[~seen], want[~seen])
