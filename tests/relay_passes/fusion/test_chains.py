"""Two products in one kernel: attention of any shape and mask, and chains that must stay apart."""

from __future__ import annotations

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zoo.graph import Graph as Onnx

import tvm_stitch
from support.kernels import stitch_case as sc
from support.kernels.checked import checked
from support.kernels.planned import kernels
from tir_schedules.cpu.accept.acceptance import accepted_plan, slower


def attention(
    batch: int, heads: int, rows: int, keys: int, size: int, value: int, mask: str = "add"
) -> Onnx:
    g = Onnx("attention")
    q = g.input("q", (batch, heads, rows, size))
    k = g.input("k", (batch, heads, size, keys))
    v = g.input("v", (batch, heads, keys, value))
    scores = g.op("Mul", g.op("MatMul", q, k), g.constant(size**-0.5))
    if mask == "add":
        scores = g.op("Add", scores, g.input("mask", (batch, 1, 1, keys)))
    elif mask == "where":
        seen = g.op("Greater", g.input("mask", (rows, keys)), g.constant(-0.5))
        scores = g.op("Where", seen, scores, g.constant(-1e4))
    context = g.op("MatMul", g.op("Softmax", scores, axis=-1), v)
    turned = g.op("Transpose", context, perm=[0, 2, 1, 3])
    g.output(turned, "y", (batch, rows, heads, value))
    return g


@settings(max_examples=6, deadline=None)
@given(
    sizes=st.tuples(
        st.integers(1, 3),
        st.integers(1, 5),
        st.integers(1, 130),
        st.integers(1, 130),
        st.sampled_from([8, 16, 33, 64]),
        st.sampled_from([8, 24, 40, 64]),
    ),
    mask=st.sampled_from(["none", "add", "where"]),
)
def test_attention_of_any_shape_is_right(sizes, mask):
    checked(attention(*sizes, mask).model())


@pytest.mark.parametrize("mask", ["none", "add", "where"])
@pytest.mark.parametrize("sizes", [(4, 8, 128, 128, 64, 64), (8, 4, 100, 77, 64, 32)])
def test_attention_is_one_kernel_with_register_tiles(sizes, mask):
    groups = kernels(attention(*sizes, mask).model())
    (group,) = (g for g in groups if len(g.nodes) > 1)  # a mask may be made before it
    _, plan = accepted_plan(group.kernel(), sc.device(2))
    assert slower(plan, sc.device(2)) is None
    products = [g for p in plan.phases for g in p.groups if g.rows > 1]
    assert len(products) == 2


def test_a_row_that_fits_no_cache_keeps_its_products_in_one_kernel():
    model = attention(1, 2, 64, 1 << 16, 16, 16).model()
    assert len(kernels(model)) == 1


def test_products_that_would_lose_their_tiles_stay_apart():
    g = Onnx("wide")
    x = g.input("x", (16, 512))
    hidden = g.op("Relu", g.op("MatMul", x, g.weight("up", (512, 2048))))
    g.output(g.op("MatMul", hidden, g.weight("down", (2048, 512))), "y", (16, 512))
    assert len(kernels(g.model())) == 2
    checked(g.model())


@pytest.mark.parametrize(("between", "count"), [(24, 2), (16, 1)])
def test_a_depth_in_short_runs_keeps_products_apart(between, count):
    """24 columns are three panels of 8: the next product would sum over 8 at a time."""
    g = Onnx("narrow")
    x = g.input("x", (12544, 32))
    hidden = g.op("MatMul", x, g.weight("down", (32, between)))
    y = g.op("MatMul", g.op("Relu", hidden), g.weight("up", (between, 96)))
    g.output(y, "y", (12544, 96))
    assert len(kernels(g.model())) == count
    checked(g.model())


def around_a_third_product() -> onnx.ModelProto:
    """The second product needs the first one directly, and through one that stays outside."""
    g = Onnx("around")
    x = g.input("x", (8, 96, 96))
    y = g.op("MatMul", x, g.input("u", (8, 96, 96)))
    other = g.op("ReduceMean", g.op("MatMul", y, g.input("v", (8, 96, 96))), axes=[0], keepdims=1)
    mixed = g.op("Softmax", g.op("Add", y, other), axis=-1)
    g.output(g.op("MatMul", mixed, g.input("w", (8, 96, 96))), "z", (8, 96, 96))
    return g.model()


def test_a_chain_around_another_product_is_no_cycle():
    checked(around_a_third_product())


def test_fuel_stops_before_a_chain():
    model = attention(4, 8, 128, 128, 64, 64).model()
    assert tvm_stitch.explain(model, threads=2, fuel=0).kernels > len(kernels(model))
