"""What is not 0 is true, NaN too, and TVM folds no constant into a bool that it is not."""

import ml_dtypes
import numpy as np
import pytest
from tvm import te, tirx

from support.kernels import stitch_case as sc
from support.kernels.scheduled import run, scheduled

SPECIAL = [0.0, -0.0, 1.0, -2.0, 0.5, np.inf, -np.inf, np.nan, 1e-45, -3e-39]


def memory(dtype: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, dtype, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int8"])
@pytest.mark.parametrize("border", [-2, 0, 3])
def test_a_border_of_any_value_is_cast(dtype, border):
    x = te.placeholder((97,), dtype, "x")

    def value(i: tirx.Var):
        inside = tirx.all(i >= 3, i < 100)
        return tirx.if_then_else(inside, x[i - 3], tirx.const(border, dtype)).astype("bool")

    kernel = te.create_prim_func([x, te.compute((103,), value, "y")])
    rng = np.random.default_rng()
    source = rng.choice([0, 1, -2], 97).astype(memory(dtype))
    y = np.zeros(103, bool)
    run(scheduled(kernel, sc.device(1)), source, y)
    np.testing.assert_array_equal(y, np.pad(source.astype("f8"), 3, constant_values=border) != 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_difference_is_cast_as_it_is_rounded(dtype):
    """inf - inf is NaN, which is true, though inf is not other than inf."""
    pairs = np.array([(a, b) for a in SPECIAL for b in SPECIAL], dtype).T.copy()
    x, y = (te.placeholder((len(pairs[0]),), dtype, name) for name in "xy")
    kernel = te.create_prim_func(
        [x, y, te.compute(x.shape, lambda i: (x[i] - y[i]).astype("bool"), "z")]
    )
    z = np.zeros(len(pairs[0]), bool)
    run(scheduled(kernel, sc.device(1)), *pairs, z)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(z, (pairs[0] - pairs[1]).astype(bool))
