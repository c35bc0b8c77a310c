"""Comparisons of NaN: it is other than all, itself too, and neither less nor greater."""

import ml_dtypes
import numpy as np
import pytest
from tvm import te, tirx

from support.kernels import stitch_case as sc
from support.kernels.scheduled import run, scheduled

SPECIAL = [np.nan, 0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, 1e-3]
RULES = {
    "NE": np.not_equal,
    "EQ": np.equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def _opposite_of(found: te.Tensor):
    return lambda i: tirx.Not(found[i])


@pytest.mark.long(every=5)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("negated", [False, True])
def test_pairs_compare_as_numpy_has_them(rule, dtype, negated):
    memory = np.dtype(getattr(ml_dtypes, dtype, dtype))
    pairs = np.array([(a, b) for a in SPECIAL for b in SPECIAL]).T.astype(memory)
    x, y = (te.placeholder(pairs[0].shape, dtype, name) for name in "xy")

    found = te.compute(x.shape, lambda i: getattr(tirx, rule)(x[i], y[i]), "found")
    if negated:  # in a stage of its own: in one expression TVM makes y <= x of it before we see it
        found = te.compute(x.shape, _opposite_of(found), "other")
    kernel = te.create_prim_func([x, y, found])
    z = np.zeros(pairs[0].shape, bool)
    run(scheduled(kernel, sc.device(1)), *(np.ascontiguousarray(side) for side in pairs), z)
    want = RULES[rule](*pairs.astype("f8"))
    np.testing.assert_array_equal(z, ~want if negated else want)
