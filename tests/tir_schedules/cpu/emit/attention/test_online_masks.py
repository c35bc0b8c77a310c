"""Keys that a mask hides are left out of attention in one pass, and no result shows it."""

from __future__ import annotations

import functools
from unittest import mock

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx
from zoo.graph import Graph

from support.kernels import stitch_case as sc
from support.kernels.online_attention import (
    JOINED,
    assert_right,
    attention,
    run_online,
    whole_kernel,
)
from support.kernels.tir import statements
from tir_schedules.cpu.decide.attention.streaming_planner import plan_streaming
from tir_schedules.cpu.emit.attention import skip_keys as online_skip
from tir_schedules.cpu.emit.attention.magnitudes import Magnitudes
from tir_schedules.patterns.attention_masks import why_none_hidden
from tir_schedules.patterns.match_attention import find_attention

ROWS, KEYS, SIZE, VALUE, HEADS = 45, 1500, 24, 20, 2
FORMS = ("where", "reversed", "padded", "added", "scaled", "clipped")
PATTERNS = ("causal", "window", "padding", "left padding", "blocks", "a row", "all", "none")
SPECIAL = (np.nan, np.inf, -np.inf, 3e38)


def masked(form: str, dtype: str = "float32", turned: bool = False) -> onnx.ModelProto:
    """Return attention with an input `mask`, 1 at hidden keys, and what these get, `low`."""
    g = Graph("masked", dtype=dtype)
    q = g.input("q", (1, HEADS, ROWS, SIZE))
    k = g.input("k", (1, HEADS, KEYS, SIZE) if turned else (1, HEADS, SIZE, KEYS))
    k = g.op("Transpose", k, perm=[0, 1, 3, 2]) if turned else k
    v = g.input("v", (1, HEADS, KEYS, VALUE))
    mask = g.input("mask", (1, 1, 1, KEYS) if form == "padded" else (ROWS, KEYS))
    low = g.input("low", (1,))
    scores = g.op("Mul", g.op("MatMul", q, k), g.constant(SIZE**-0.5))
    hides = g.op("Greater", mask, g.constant(0.5))
    if form == "where":
        scores = g.op("Where", g.op("Not", hides), scores, low)
    elif form in ("reversed", "padded"):
        scores = g.op("Where", hides, low, scores)
    elif form == "scaled":
        seen = g.op("Sub", g.constant(1.0), mask)
        scores = g.op("Add", g.op("Mul", scores, seen), g.op("Where", hides, low, seen))
    elif form == "clipped":
        scores = g.op("Sub", g.constant(1.0), g.op("Relu", scores))
        scores = g.op("Add", scores, g.op("Where", hides, low, g.constant(0.0)))
    else:
        scores = g.op("Sub", g.op("Where", hides, low, g.constant(0.0)), scores)
    g.output(g.op("MatMul", g.op("Softmax", scores, axis=-1), v), "y", (1, HEADS, ROWS, VALUE))
    return g.model()


def hidden(pattern: str, rng: np.random.Generator) -> np.ndarray:
    row, key = np.arange(ROWS)[:, None] * (KEYS // ROWS), np.arange(KEYS)[None]
    if pattern in ("causal", "window"):
        return (key > row) | ((pattern == "window") & (key < row - 100))
    cut = rng.integers(1, KEYS)
    one = np.zeros((ROWS, KEYS), bool)
    if pattern in ("padding", "left padding"):
        return one | ((key >= cut) == (pattern == "padding"))
    if pattern == "blocks":
        return np.kron(rng.integers(0, 2, (5, 30)), np.ones((9, 50))).astype(bool)
    one[rng.integers(ROWS) if pattern == "a row" else slice(None)] = pattern != "none"
    return one


def softmaxed(form: str, inputs: dict[str, np.ndarray], turned: bool) -> np.ndarray:
    """Return the result as NumPy has it, in float64 from the softmax on."""
    q, k, v, mask, low = (inputs[name] for name in ("q", "k", "v", "mask", "low"))
    k = k.swapaxes(-1, -2) if turned else k
    with np.errstate(all="ignore"):
        scores, hides = (q @ k) * q.dtype.type(SIZE**-0.5), mask > 0.5
        if form == "scaled":
            scores = scores * (1 - mask) + np.where(hides, low, 1 - mask)
        elif form == "added":
            scores = np.where(hides, low, 0).astype(q.dtype) - scores
        elif form == "clipped":
            scores = 1 - np.maximum(scores, 0) + np.where(hides, low, 0).astype(q.dtype)
        else:
            scores = np.where(hides, low, scores)
        scores = scores.astype("float64")
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return (weights / weights.sum(-1, keepdims=True)) @ v.astype("float64")


@functools.cache
def pair(form: str, dtype: str, turned: bool):
    """Return the compiled attention as it is, and one that leaves no key out."""
    model = masked(form, dtype, turned)
    with mock.patch.dict(online_skip._UNDERFLOWS, {dtype: float("nan")}):
        whole = sc.compiled(model, 2, policy=JOINED)
    return sc.compiled(model, 2, policy=JOINED).model, whole.model


def inputs_of(dtype: str, form: str, turned: bool, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {"q": (ROWS, SIZE), "k": (SIZE, KEYS), "v": (KEYS, VALUE)}
    if turned:
        shapes["k"] = (KEYS, SIZE)
    return {n: rng.standard_normal((1, HEADS, *s)).astype(dtype) for n, s in shapes.items()}


LAYOUTS = st.sampled_from(
    [(form, "float32", form in ("where", "added")) for form in FORMS]
    + [("added", "float64", False), ("where", "float64", True)]
)


@pytest.mark.long
@settings(max_examples=8, deadline=None)
@given(
    layout=LAYOUTS,
    pattern=st.sampled_from(PATTERNS),
    low=st.sampled_from([-np.inf, "min", -1e4, -1000, -750, -120, -104, -95, -85, 0, np.nan]),
    scale=st.sampled_from([(1e-3, 1e-3), (1, 1), (30, 30), (1e30, 1e30), (1e-30, 1e30)]),
    large=st.booleans(),
    special=st.lists(
        st.tuples(st.sampled_from("qkv"), st.sampled_from(SPECIAL), st.integers(0, 1 << 30)),
        max_size=2,
    ),
    seed=st.integers(0, 1 << 30),
)
def test_results_are_those_of_no_key_left_out(layout, pattern, low, scale, large, special, seed):
    form, dtype, turned = layout
    inputs = inputs_of(dtype, form, turned, seed)
    inputs["q"] *= scale[0]
    inputs["k"] *= scale[1]
    inputs["v"] *= np.finfo(dtype).max / 8 if large else 1
    for name, value, place in special:
        inputs[name].flat[place % inputs[name].size] = value
    mask = hidden(pattern, np.random.default_rng(seed)).astype(dtype)
    inputs["mask"] = mask[None, None, -1:] if form == "padded" else mask
    inputs["low"] = np.array([np.finfo(dtype).min if low == "min" else low], dtype)
    skipping, whole = pair(form, dtype, turned)
    np.testing.assert_array_equal(skipping.run(inputs)["y"], whole.run(inputs)["y"])


@pytest.mark.long
@settings(max_examples=8, deadline=None)
@given(
    layout=LAYOUTS,
    pattern=st.sampled_from(PATTERNS),
    low=st.sampled_from([-np.inf, "min", -1e4]),
    special=st.lists(
        st.tuples(st.sampled_from("qkv"), st.sampled_from(SPECIAL[:3]), st.integers(0, 1 << 30)),
        max_size=1,
    ),
    seed=st.integers(0, 1 << 30),
)
def test_results_are_right(layout, pattern, low, special, seed):
    form, dtype, turned = layout
    inputs = inputs_of(dtype, form, turned, seed)
    for name, value, place in special:
        inputs[name].flat[place % inputs[name].size] = value
    mask = hidden(pattern, np.random.default_rng(seed)).astype(dtype)
    if low == -1e4 and form in ("added", "scaled", "clipped"):
        mask[:, 0] = 0  # scores that -1e4 is added to have few digits
    inputs["mask"] = mask[None, None, -1:] if form == "padded" else mask
    inputs["low"] = np.array([np.finfo(dtype).min if low == "min" else low], dtype)
    assert_right(pair(form, dtype, turned)[0].run(inputs)["y"], softmaxed(form, inputs, turned))


@pytest.mark.parametrize(("dtype", "low"), [("float32", -96), ("float64", -737)])
def test_a_key_whose_weight_is_the_least_number_is_seen(dtype, low):
    inputs = inputs_of(dtype, "where", True, 0)
    inputs["q"][:] = 0
    inputs["mask"] = np.broadcast_to(np.arange(KEYS) >= 200, (ROWS, KEYS)).astype(dtype)
    inputs["low"] = np.array([low], dtype)
    inputs["v"][:, :, :200], inputs["v"][:, :, 200:] = 0, np.finfo(dtype).max
    skipping, whole = (model.run(inputs)["y"] for model in pair("where", dtype, True))
    assert (whole > 0).all()
    np.testing.assert_array_equal(skipping, whole)


@pytest.mark.long(every=10)
@pytest.mark.parametrize("form", ["where", "added"])
@pytest.mark.parametrize(
    ("low", "keys", "left"),
    [
        (-np.inf, slice(700, KEYS), slice(800, KEYS)),
        (-1e4, slice(700, KEYS), slice(800, KEYS)),
        (-np.inf, slice(0, 1400), slice(0, 64)),
    ],
)
def test_hidden_keys_are_left_out_but_for_values_that_are_not_finite(form, low, keys, left):
    """Of values taken for finite, NaN at the keys that are left out does not show."""
    model, inputs = masked(form), inputs_of("float32", form, False, 0)
    inputs["mask"] = np.zeros((ROWS, KEYS), "float32")
    inputs["mask"][:, keys] = 1
    inputs["low"] = np.array([low], "float32")
    wanted = run_online(model, inputs)
    inputs["v"][:, :, left] = np.nan
    assert np.isnan(run_online(model, inputs)).all()
    with mock.patch.object(Magnitudes, "finite", lambda *_: tirx.const(True, "bool")):
        np.testing.assert_array_equal(run_online(model, inputs), wanted)


def test_every_batch_of_a_task_is_looked_at():
    heads = 150
    model = attention(20, 1100, 8, 8, "where", heads=heads).model()
    inputs = sc.zoo.random_inputs(model)
    inputs["mask"][:] = np.where(np.arange(1100) < 200, 0.0, -1.0)
    inputs["v"][0, 1::2, 1000] = np.inf
    nan = np.isnan(run_online(model, inputs))
    odd = np.arange(heads) % 2 == 1
    np.testing.assert_array_equal(nan, np.broadcast_to(odd[:, None, None], nan.shape))


def test_a_hidden_score_of_nan_shows_where_numbers_are_clipped():
    inputs = inputs_of("float32", "clipped", False, 0)
    inputs["mask"] = np.broadcast_to(np.arange(KEYS) >= 200, (ROWS, KEYS)).astype("float32")
    inputs["low"] = np.array([-1e4], "float32")
    inputs["q"][:] = 1
    inputs["k"][0, :, :2, -1] = np.inf, -np.inf
    assert np.isnan(pair("clipped", "float32", False)[0].run(inputs)["y"]).all()


def conditions(model: onnx.ModelProto) -> int:
    """Return how many conditions stand around a product of the one kernel."""
    (kernel,) = sc.compiled(model, 2, policy=JOINED).kernels.values()
    found = [inside for stmt, inside in statements(kernel.body) if _is_accumulation(stmt)]
    assert found
    return min(sum(isinstance(s, tirx.IfThenElse) for s in inside) for inside in found)


def _is_accumulation(stmt: tirx.Stmt) -> bool:
    return isinstance(stmt, tirx.BufferStore) and stmt.buffer.name.startswith("acc")


@pytest.mark.long(every=2)
@pytest.mark.parametrize(("mask", "count"), [("none", 0), ("keys", 2), ("scores", 2), ("where", 2)])
def test_products_stand_under_conditions_of_masked_attention_alone(mask, count):
    assert conditions(attention(64, 2048, mask=mask).model()) == count


def changed(change: str) -> onnx.ModelProto:
    g = Graph("changed")
    q, k, v = (
        g.input(n, s) for n, s in zip("qkv", ((64, 32), (32, 1024), (1024, 32)), strict=True)
    )
    scores, mask = g.op("MatMul", q, k), g.input("mask", (64, 1024))
    if change == "rows":
        scores = g.op("Add", scores, g.input("bias", (64, 1)))
    elif change == "chosen":
        scores = g.op("Where", g.op("Greater", scores, mask), scores, g.constant(-1e4))
    elif change == "square":
        scores = g.op("Add", g.op("Mul", scores, scores), mask)
    elif change == "function":
        scores = g.op("Add", g.op("Tanh", scores), mask)
    elif change == "reciprocal":
        scores = g.op("Add", g.op("Div", g.constant(1.0), scores), mask)
    elif change == "bounded product":
        scores = g.op("Relu", g.op("Mul", scores, mask))
    elif change == "bounded":
        scores = g.op("Add", g.op("Relu", scores), mask)
    g.output(g.op("MatMul", g.op("Softmax", scores, axis=-1), v), "y", (64, 32))
    return g.model()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("nothing", "nothing but the score"),
        ("rows", "nothing but the score"),
        ("chosen", "depends on the score"),
        ("square", "of two scores"),
        ("function", "tanh of the score"),
        ("reciprocal", "a quotient by the score"),
        ("bounded product", "what may be infinite"),
    ],
)
def test_says_why_no_mask_can_be_told_to_hide_keys(change, reason):
    assert reason in why_none_hidden(find_attention(whole_kernel(changed(change))))


@pytest.mark.parametrize(
    ("mask", "keys", "online"),
    [
        *(("where", 255, False), ("where", 256, True), ("scores", 1023, False)),
        *(("keys", 1023, False), ("none", 1023, False), ("none", 1024, True)),
    ],
)
def test_keys_chosen_row_by_row_are_taken_in_blocks_where_there_are_fewer(mask, keys, online):
    kernel = whole_kernel(attention(64, keys, mask=mask).model())
    assert (plan_streaming(find_attention(kernel), sc.device(2)) is not None) == online


def test_a_bounded_score_can_be_hidden():
    assert why_none_hidden(find_attention(whole_kernel(changed("bounded")))) is None
