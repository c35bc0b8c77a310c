"""Rewrites cost fuel, are named in order, and without fuel there is none."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_stitch
from support.kernels import stitch_case as sc
from support.models.runtime import linear, linear_reference
from tir_schedules.fuel import Fuel, burning, is_out, left, spend, unnoted
from tvm_stitch.build import Request, build, lower


def test_fuel_is_spent_in_order_until_none_is_left():
    with burning(Fuel(2)) as fuel:
        assert [spend("a", "x"), left(), spend("b"), is_out(), spend("c")] == [
            True,
            1,
            True,
            True,
            False,
        ]
        with unnoted():
            assert spend("d")
    assert [rewrite.name for rewrite in fuel.spent] == ["a", "b"]
    assert spend("e")
    assert left() is None


def test_no_fuel_means_no_rewrite():
    lowered = lower(Request(linear()[0], threads=2, fuel=0))
    assert lowered.fuel.spent == []
    assert lowered.report.last_rewrite == "none"
    assert lowered.report.kernels == 3
    assert build(lowered).report.kernels == 3
    assert lowered.fuel.spent == []


@pytest.mark.parametrize("fuel", range(7))
def test_every_amount_of_fuel_gives_a_right_model(fuel):
    model, weights = linear()
    x = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    built = build(lower(Request(model, threads=2, fuel=fuel)))
    expected = linear_reference(x, weights)
    np.testing.assert_allclose(built.run({"input.1": x})["y"], expected, 1e-5, 1e-4)


def test_rewrites_are_named_by_what_they_are_applied_to():
    fuel = lower(Request(linear()[0], threads=2)).fuel
    assert [rewrite.name for rewrite in fuel.spent] == [
        "PackWeights: packed_matmul",
        "fold_weights",
        "fuse",
        "fuse",
        "FuseOps",
        "schedule",
    ]
    told = tvm_stitch.explain(linear()[0], threads=2, fuel=3)
    assert told.last_rewrite == "fuse at MatMul 'product', Add 'sum'"
    assert "3 rewrites, the last: fuse at MatMul 'product', Add 'sum'" in str(told)


def test_more_fuel_is_never_a_different_beginning():
    model = sc.Case("layernorm_decomposed", (64, 256)).model()
    whole = lower(Request(model, threads=2)).fuel.spent
    for count in (1, 3, 7):
        assert lower(Request(model, threads=2, fuel=count)).fuel.spent == whole[:count]
