"""Weights in panels: the same products and convolutions, each weight stored once."""

from __future__ import annotations

import functools

import numpy as np
import onnx
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax
from zoo.graph import Graph

import tvm_stitch
from relay_passes.transform import PackWeights
from support.kernels.checked import checked
from support.models import relax_models


def product(rows: tuple[int, ...], depth: int, columns: int, dtype: str = "float32") -> Graph:
    g = Graph("product", dtype=dtype)
    x = g.input("x", (*rows, depth))
    g.output(g.op("MatMul", x, g.weight("w", (depth, columns))), "y", (*rows, columns))
    return g


def packed(kernels: set[str]) -> list[str]:
    return [name for name in kernels if "packed" in name or "convolve" in name]


@settings(max_examples=8, deadline=None)
@given(
    rows=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    depth=st.integers(1, 300),
    columns=st.sampled_from([1, 7, 8, 16, 24, 32, 96, 100, 160, 257]),
)
def test_products_with_weights_of_any_shape_are_right(rows, depth, columns):
    checked(product(tuple(rows), depth, columns).model())


@pytest.mark.long(every=3)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [3, 4, 5, 7, 9, 13, 15])
def test_columns_too_few_for_a_panel_are_filled_up(columns, dtype):
    """7 of them took 460 us as sums along the depth, 57 as 8 (384 x 768, Zen 4)."""
    model = product((30,), 70, columns, dtype).model()
    assert tvm_stitch.explain(model, threads=2).fallbacks == 0
    checked(model)


@settings(max_examples=8, deadline=None)
@given(
    rows=st.integers(1, 60),
    depth=st.integers(1, 100),
    columns=st.sampled_from([8, 16, 24, 32, 40, 96, 160]),
    several=st.booleans(),
)
def test_products_with_an_epilogue_are_right(rows, depth, columns, several):
    g = Graph("epilogue")
    x = g.input("x", (rows, depth))
    y = g.op("MatMul", x, g.weight("w", (depth, columns)))
    y = g.op("Add", y, g.weight("b", (columns,)))
    if several:
        g.output(g.op("Sigmoid", y), "gate", (rows, columns))
    y = g.op("Div", g.op("Add", g.op("Relu", y), g.input("r", (rows, columns))), g.constant(3.0))
    g.output(g.op("Mul", y, g.input("s", (rows, 1))), "y", (rows, columns))
    checked(g.model())


@pytest.mark.parametrize("depth", [2039, 8192, 12288])
def test_deep_products_are_right(depth):
    assert packed(checked(product((50,), depth, 64).model()))


@pytest.mark.long(every=2)
@pytest.mark.parametrize("rows", [(1,), (30,), (2, 9)])
@pytest.mark.parametrize(("depth", "columns"), [(1100, 1003), (100, 521), (4000, 233)])
def test_a_weight_of_ragged_columns_is_padded_and_the_result_cut(rows, depth, columns):
    assert packed(checked(product(rows, depth, columns).model()))


@pytest.mark.parametrize(("depth", "columns"), [(40000, 33), (100, 233)])
def test_a_weight_that_would_grow_by_too_much_is_not_padded(depth, columns):
    assert not packed(checked(product((2,), depth, columns).model()))


def test_rows_that_are_cut_are_one_kernel_but_not_on_one_thread():
    report = tvm_stitch.explain(product((64,), 512, 1000).model(), threads=2)
    assert report.kernels == 1
    report = tvm_stitch.explain(product((1,), 512, 1000).model(), threads=2)
    assert report.kernels == 2, "a row is cut by one thread"


def test_a_large_weight_that_is_transposed_and_ragged_is_packed(tmp_path):
    g = Graph("head")
    w = g.op("Transpose", g.weight("w", (1003, 1100)), perm=[1, 0])
    y = g.op("Add", g.op("MatMul", g.input("x", (7, 1100)), w), g.weight("b", (1003,)))
    g.output(y, "y", (7, 1003))
    assert packed(checked(g.model()))
    tvm_stitch.compile(g.model()).export(tmp_path / "m.so")
    assert (tmp_path / "m.so").stat().st_size < 1.1 * 4 * 1003 * 1100


def test_float64_products_are_right():
    assert packed(checked(product((33,), 70, 96, "float64").model(), 1e-12))


def test_a_weight_of_two_products_is_packed():
    g = Graph("twice")
    w = g.weight("w", (64, 64))
    x = g.op("MatMul", g.input("x", (48, 64)), w)
    g.output(g.op("MatMul", x, w), "y", (48, 64))
    assert packed(checked(g.model()))


def test_constants_of_one_shape_are_told_apart():
    x, *weights = relax_models.arrays((48, 64), *[(64, 64)] * 8)

    def emit(builder: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        for weight in weights:
            x = builder.emit(relax.op.matmul(x, relax.const(weight / 8)))
        return x

    with relax_models.cpu():
        mod = PackWeights()(relax_models.module(emit, x))
    text = mod["main"].script()
    assert text.count("packed_matmul") == len(weights), text
    executable = tvm.compile(mod, relax_models.cpu(), relax_pipeline="tvm_stitch")
    (made,) = relax_models.run(executable, relax_models.Relaxed(mod, (x,), ()))
    expected = functools.reduce(lambda x, weight: x @ (weight.astype("f8") / 8), weights, x)
    assert np.abs(made - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize(("rows", "count"), [(1, 0), (48, 1)])
def test_a_weight_that_something_else_reads_gets_panels_for_several_rows(rows, count):
    g = Graph("shared")
    w = g.weight("w", (64, 64))
    g.output(g.op("MatMul", g.input("x", (rows, 64)), w), "y", (rows, 64))
    g.output(g.op("Gather", w, g.input("i", (5,), "int64", below=64)), "row", (5, 64))
    assert len(packed(checked(g.model()))) == count


def test_in_a_pipeline_a_weight_that_something_else_reads_stays_as_it_is():
    x, weight = relax_models.arrays((48, 64), (64, 64))

    def emit(builder: relax.BlockBuilder, x: relax.Expr, w: relax.Expr) -> relax.Expr:
        return builder.emit(relax.op.add(relax.op.matmul(x, w), relax.op.sum(w)))

    before = relax_models.module(emit, x, weight)
    before["main"] = before["main"].with_attr("num_input", 1)
    with relax_models.cpu():
        tvm.ir.assert_structural_equal(PackWeights()(before), before)


def test_the_file_has_each_weight_once(tmp_path):
    model = product((16,), 1024, 1024).model()
    tvm_stitch.compile(model).export(tmp_path / "m.so")
    assert (tmp_path / "m.so").stat().st_size < 1.2 * 4 * 1024 * 1024


@st.composite
def convolutions(draw: st.DrawFn) -> onnx.ModelProto:
    rank = draw(st.integers(1, 3))
    numbers = {"kernel": (1, 4), "dilation": (1, 2), "stride": (1, 3), "before": (0, 2)}
    axes = [{k: draw(st.integers(*v)) for k, v in numbers.items()} for _ in range(rank)]
    sizes, outs = [], []
    for axis in axes:
        axis["after"] = draw(st.integers(0, 2))
        reach = (axis["kernel"] - 1) * axis["dilation"] + 1
        out = draw(st.integers(1, 15) if rank > 1 else st.integers(1, 60))
        size = (out - 1) * axis["stride"] + reach - axis["before"] - axis["after"]
        sizes.append(max(size, 1))
        inside = sizes[-1] + axis["before"] + axis["after"] - reach
        outs.append(inside // axis["stride"] + 1)
    depth, channels, groups = draw(
        st.sampled_from([(3, 16, 1), (5, 24, 1), (16, 32, 1), (32, 64, 1), (8, 7, 1), (1, 8, 1)])
        | st.sampled_from([(8, 8, 8), (19, 19, 19), (80, 80, 80), (8, 16, 8), (8, 32, 2)])
    )
    batch = draw(st.integers(1, 2))
    g = Graph("conv")
    x = g.input("x", (batch, depth, *sizes))
    if draw(st.booleans()):  # a depthwise one is channels last behind another only
        x = g.op("Conv", x, g.weight("v", (depth, depth, *[1] * rank)))
    y = g.op(
        "Conv",
        x,
        g.weight("w", (channels, depth // groups, *(a["kernel"] for a in axes))),
        g.weight("b", (channels,)),
        strides=[a["stride"] for a in axes],
        dilations=[a["dilation"] for a in axes],
        pads=[*(a["before"] for a in axes), *(a["after"] for a in axes)],
        group=groups,
    )
    g.output(g.op("Relu", y), "y", (batch, channels, *outs))
    return g.model()


@settings(max_examples=8, deadline=None)
@given(convolutions())
def test_convolutions_of_any_window_are_right(model):
    checked(model)


@pytest.mark.parametrize(("channels", "groups"), [(32, 1), (16, 16)])
def test_convolutions_are_packed(channels, groups):
    g = Graph("conv")
    x = g.op("Conv", g.input("x", (1, 16, 12, 12)), g.weight("v", (16, 16, 1, 1)))
    w = g.weight("w", (channels, 16 // groups, 3, 3))
    y = g.op("Conv", x, w, pads=[1, 1, 1, 1], group=groups)
    g.output(y, "y", (1, channels, 12, 12))
    assert packed(checked(g.model()))


def activations(left: tuple[int, ...], right: tuple[int, ...]) -> onnx.ModelProto:
    g = Graph("activations")
    y = g.op("MatMul", g.input("x", left), g.op("Tanh", g.input("y", right)))
    g.output(y, "z", (*left[:-1], right[-1]))
    return g.model()


@pytest.mark.parametrize(
    ("left", "right", "count"),
    [
        ((64, 512), (512, 1024), 1),
        ((3, 65, 520), (3, 520, 1024), 1),
        ((3, 65, 512), (512, 1536), 1),
        ((65, 512), (512, 1000), 0),  # lines that do not collide
        ((32, 512), (512, 1024), 0),  # and too few readings
        ((2, 1, 70, 512), (1, 3, 512, 1024), 0),  # read by several batches
    ],
)
def test_activations_whose_lines_collide_are_copied_into_panels(left, right, count):
    assert len(packed(checked(activations(left, right)))) == count


@pytest.mark.parametrize("weight", [True, False])
@pytest.mark.parametrize("rows", [(), (7,), (2, 3)])
def test_a_product_with_a_vector_is_right(rows, weight):
    g = Graph("vector")
    y = g.weight("w", (65,)) if weight else g.input("y", (65,))
    g.output(g.op("MatMul", g.input("x", (*rows, 65)), y), "z", rows)
    assert not packed(checked(g.model()))
