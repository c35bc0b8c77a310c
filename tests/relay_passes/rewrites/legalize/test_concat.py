"""Tensors without elements that are put beside others: a cache that holds nothing yet."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

import tvm_stitch
from support.models import relax_models as rm

RNG = np.random.default_rng()


@pytest.mark.parametrize("axis", [1, -2])
@pytest.mark.parametrize(
    ("extents", "kernels"),
    [((0, 4), 1), ((4, 0), 1), ((0, 4, 0, 1), 1), ((3, 2), 1), ((0, 0), 0)],
    ids=str,
)
def test_what_has_no_elements_costs_no_kernel(extents, kernels, axis):
    arrays = [RNG.standard_normal((2, extent, 3)).astype("float32") for extent in extents]

    def emit(b, *tensors):
        return relax.op.add(*[b.emit(relax.op.concat(list(tensors), axis))] * 2)

    model = tvm_stitch.compile(rm.module(emit, *arrays), threads=1)
    (got,) = model.run({f"x{n}": array for n, array in enumerate(arrays)}).values()
    np.testing.assert_array_equal(got, 2 * np.concatenate(arrays, axis))
    assert (model.report.kernels, model.report.fallbacks) == (kernels, 0)
