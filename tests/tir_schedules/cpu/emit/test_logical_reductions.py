"""Reductions of bools: their accumulators are int8, for there are no vectors of bool in memory."""

import numpy as np
import pytest
from tvm import te, topi

from support.decisions.devices import small_device
from support.kernels import stitch_case as sc
from support.kernels.scheduled import run, scheduled
from tir_schedules.default_plan import plan_prim_func

CASES = [((4, 1000), 1), ((1000, 5), 0), ((64, 64), 0), ((7, 33, 129), 1), ((3, 5), 1), ((5,), 0)]
DEVICES = {"one": sc.device(1), "cut": small_device(2), "narrow": small_device(2, 32)}


def reduced(kind: str, shape: tuple[int, ...], axis: int):
    x = te.placeholder(shape, "bool", "x")
    return te.create_prim_func([x, getattr(topi, kind)(x, axis)])


def check(kind: str, shape: tuple[int, ...], axis: int, device) -> None:
    """Compare with NumPy where some results are of one element that differs from all others."""
    rng = np.random.default_rng()
    x = np.full(shape, kind == "all")
    x.flat[rng.integers(0, x.size, 3)] ^= True
    y = np.zeros(np.delete(shape, axis), bool)
    run(scheduled(reduced(kind, shape, axis), device), x, y)
    np.testing.assert_array_equal(y, getattr(np, kind)(x, axis))


@pytest.mark.long(every=5)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("shape", "axis"), CASES)
@pytest.mark.parametrize("kind", ["any", "all"])
def test_any_and_all_are_right(kind, shape, axis, device):
    check(kind, shape, axis, DEVICES[device])


@pytest.mark.parametrize(("shape", "axis"), [((4096, 65), 0), ((3, 70_000), 1), ((70_000,), 0)])
@pytest.mark.parametrize("kind", ["any", "all"])
def test_parts_of_any_and_all_are_put_together(kind, shape, axis):
    device = small_device(2)
    assert plan_prim_func(reduced(kind, shape, axis), device).phases[0].partial
    check(kind, shape, axis, device)
