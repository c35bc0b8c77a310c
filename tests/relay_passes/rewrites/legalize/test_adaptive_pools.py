"""Adaptive average pools against PyTorch in float64: windows of one size and of several."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

import tvm_stitch
from support.models import relax_models as rm

RNG = np.random.default_rng()
POOLS = {
    1: (relax.op.nn.adaptive_avg_pool1d, torch.nn.functional.adaptive_avg_pool1d),
    2: (relax.op.nn.adaptive_avg_pool2d, torch.nn.functional.adaptive_avg_pool2d),
    3: (relax.op.nn.adaptive_avg_pool3d, torch.nn.functional.adaptive_avg_pool3d),
}


def compare(x: np.ndarray, outs: tuple[int, ...], bound: float = 1e-5) -> None:
    ours, theirs = POOLS[len(outs)]
    mod = rm.module(lambda _, x: ours(x, outs if len(outs) > 1 else outs[0]), x)
    model = tvm_stitch.compile(mod, threads=2)
    (got,) = model.run({"x0": x}).values()
    ref = theirs(torch.from_numpy(x).double(), outs).numpy()
    assert (got.dtype, model.report.fallbacks) == (x.dtype, 0)
    assert np.all(np.abs(got - ref) <= bound * (np.abs(ref) + np.abs(ref).max()))


@settings(max_examples=4, deadline=None)
@given(
    sides=st.lists(st.tuples(st.integers(1, 19), st.integers(1, 8)), min_size=1, max_size=3),
    channels=st.sampled_from([1, 3, 32]),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_windows_of_any_sizes(sides, channels, dtype):
    extents, outs = zip(*sides, strict=True)
    compare(RNG.standard_normal((2, channels, *extents)).astype(dtype), outs)


def test_halves_are_added_up_in_float32():
    compare(RNG.uniform(0.5, 1, (1, 3, 47, 53)).astype("float16"), (3, 5), bound=1e-3)


@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_a_special_number_stays_within_its_windows(special):
    x = RNG.standard_normal((1, 2, 10)).astype("float32")
    x[0, 0, 5] = special
    mod = rm.module(lambda _, x: relax.op.nn.adaptive_avg_pool1d(x, 4), x)
    (got,) = tvm_stitch.compile(mod, threads=1).run({"x0": x}).values()
    ref = torch.nn.functional.adaptive_avg_pool1d(torch.from_numpy(x), 4).numpy()
    np.testing.assert_allclose(got, ref, rtol=1e-5)


def test_pools_of_channels_last():
    x = RNG.standard_normal((2, 7, 9, 5)).astype("float32")
    mod = rm.module(lambda _, x: relax.op.nn.adaptive_avg_pool2d(x, (3, 4), layout="NHWC"), x)
    (got,) = tvm_stitch.compile(mod, threads=1).run({"x0": x}).values()
    turned = torch.from_numpy(x.transpose(0, 3, 1, 2).copy()).double()
    ref = torch.nn.functional.adaptive_avg_pool2d(turned, (3, 4)).numpy().transpose(0, 2, 3, 1)
    np.testing.assert_allclose(got, ref, rtol=1e-5, atol=1e-6)
