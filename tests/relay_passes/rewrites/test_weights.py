"""What is known of a weight's numbers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from ml_dtypes import bfloat16
from tvm import relax

from relay_passes.rewrites.weights import Weights


@pytest.mark.parametrize("dtype", ["float16", bfloat16, "float32", "float64", "int8"])
def test_numbers_are_moderate_without_a_warning(dtype):
    """The limit is beyond float16, which it must not be cast to."""
    weight = relax.Var("weight", relax.TensorType((3,), np.dtype(dtype).name))
    numbers = np.array([1, -100, 0], dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Weights([], {weight: numbers}).is_moderate(weight)


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("dtype", ["float16", bfloat16, "float32"])
def test_infinities_are_not_moderate(dtype, number):
    weight = relax.Var("weight", relax.TensorType((2,), np.dtype(dtype).name))
    assert not Weights([], {weight: np.array([1, number], dtype)}).is_moderate(weight)
    assert not Weights([], {}).is_moderate(weight)
