"""Attention in one pass over blocks of keys: right for any shape, mask and special value."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zoo.graph import Graph

import tvm_stitch
from support.kernels import stitch_case as sc
from support.kernels.online_attention import (
    JOINED,
    assert_right,
    attention,
    run_online,
    whole_kernel,
)
from support.kernels.planned import kernels
from support.kernels.tir import assert_stitched
from tir_schedules.cpu.accept.acceptance import accepted_plan
from tir_schedules.patterns.match_attention import find_attention

MASKS = ("none", "keys", "scores", "where")


def reference(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> np.ndarray:
    (y,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    return y


@settings(max_examples=5, deadline=None)
@given(
    rows=st.integers(19, 130),
    keys=st.integers(1024, 1500),
    size=st.sampled_from([8, 17, 33, 64]),
    value=st.sampled_from([7, 24, 33, 64]),
    mask=st.sampled_from(MASKS),
    turned=st.booleans(),
)
def test_attention_of_any_shape_is_right(rows, keys, size, value, mask, turned):
    model = attention(rows, keys, size, value, mask, turned=turned).model()
    inputs = sc.zoo.random_inputs(model)
    assert_right(run_online(model, inputs), reference(model, inputs))


@pytest.mark.parametrize("keys", [1031, 1024 + 416, 4099])
def test_a_last_block_of_any_length_is_right(keys):
    model = attention(61, keys).model()
    inputs = sc.zoo.random_inputs(model)
    assert_right(run_online(model, inputs), reference(model, inputs))


def test_float64_is_right_to_its_own_precision():
    model = attention(40, 1100, dtype="float64", mask="keys").model()
    inputs = sc.zoo.random_inputs(model)
    q, k, v, mask = (inputs[name] for name in ("q", "k", "v", "mask"))
    scores = np.exp(q @ k * 32**-0.5 + mask)
    wanted = scores @ v / scores.sum(-1, keepdims=True)
    np.testing.assert_allclose(run_online(model, inputs), wanted, rtol=1e-11)


def test_layouts_around_are_read_where_they_are():
    model = attention(200, 2048, batch_first=True).model()
    inputs = sc.zoo.random_inputs(model)
    compiled = sc.compiled(model, 2, policy=JOINED).model
    assert compiled.report.kernels == 1
    assert_right(compiled.run(inputs)["y"], reference(model, inputs))


@pytest.mark.long(every=6)
@pytest.mark.parametrize("mask", ["none", "keys", "scores", "where"])
@pytest.mark.parametrize("turned", [False, True])
def test_attention_is_one_region_without_a_row_of_scores(mask, turned):
    model = attention(112, 16384, mask=mask, turned=turned).model()
    compiled = sc.compiled(model, 2, policy=JOINED)
    (group,) = (g for g in kernels(model, JOINED.fusion) if len(g.nodes) > 3)
    _, plan = accepted_plan(group.kernel(), sc.device(2))
    assert plan.streaming is not None
    assert compiled.model.report.kernels == 1
    for func in compiled.kernels.values():
        assert_stitched(func, sc.device(2))


def special(where: str) -> dict[str, np.ndarray]:
    model = attention(30, 1100, mask="scores").model()
    inputs = sc.zoo.random_inputs(model)
    if where == "a masked row":
        inputs["mask"][:, 3] = -np.inf
    elif where == "masked first keys":
        inputs["mask"][:, 4, :1050] = -np.inf
    elif where == "a score of NaN":
        inputs["mask"][0, 5, 700] = np.nan
    elif where == "an infinite score":
        inputs["mask"][0, 6, 1090] = np.inf
    elif where == "an infinite value":
        inputs["v"][0, 1, 20] = np.inf
    elif where == "large scores":
        inputs["q"] *= 1e4
    elif where == "large values":
        inputs["v"][:] = 3e38
    return inputs


@pytest.mark.long(every=2)
@pytest.mark.parametrize(
    "where",
    [
        *("a masked row", "masked first keys", "a score of NaN", "an infinite score"),
        *("an infinite value", "large scores"),
    ],
)
def test_special_values_come_out_as_onnx_runtime_gives_them(where):
    model, inputs = attention(30, 1100, mask="scores").model(), special(where)
    assert_right(run_online(model, inputs), reference(model, inputs))


def test_sums_of_the_largest_values_do_not_overflow():
    model, inputs = attention(30, 1100, mask="scores").model(), special("large values")
    np.testing.assert_allclose(run_online(model, inputs), 3e38, rtol=1e-5)


def test_results_do_not_depend_on_threads():
    model = attention(200, 1100, mask="keys").model()
    inputs = sc.zoo.random_inputs(model)
    one, two = (run_online(model, inputs, threads) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_other_planners_and_no_fuel_leave_products_apart():
    model = attention(64, 2048).model()
    for options in ({"fuel": 0}, {"fusion": "tvm"}, {"fusion": "none"}):
        assert tvm_stitch.explain(model, threads=2, **options).kernels > 2


def changed(change: str) -> onnx.ModelProto:
    g = Graph("changed")
    q, k, v = (
        g.input(n, s) for n, s in zip("qkv", ((64, 32), (32, 1024), (1024, 32)), strict=True)
    )
    scores = g.op("MatMul", q, k)
    if change == "twice":
        scores = g.op("Add", scores, g.op("Softmax", scores, axis=-1))
    weights = g.op("Softmax", scores, axis=0 if change == "axis" else -1)
    if change == "sum":
        weights = g.op("Div", g.op("Exp", scores), g.reduce("ReduceSum", scores, [-1]))
    if change == "computed":
        v = g.op("Exp", v)
    if change == "product":
        g.output(weights, "y", (64, 1024))
        return g.model()
    g.output(g.op("MatMul", weights, v), "y", (64, 32))
    if change == "result":
        g.output(weights, "weights", (64, 1024))
    return g.model()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("product", "not two products"),
        ("result", "several results"),
        ("sum", "no softmax"),
        ("twice", "reductions are"),
        ("axis", "not along"),
        ("computed", "the values are computed"),
    ],
)
def test_refuses_and_says_why(change, reason):
    assert reason in find_attention(whole_kernel(changed(change)))
