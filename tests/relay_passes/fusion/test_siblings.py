"""Products side by side that read one tensor, and products with reductions of rows behind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx
from zoo.graph import Graph as Onnx

from support.kernels import stitch_case as sc
from support.kernels import tir
from support.kernels.checked import checked
from support.kernels.planned import kernels
from tir_schedules.cpu.accept.acceptance import accepted_plan, slower
from tir_schedules.cpu.accept.inspect import guarded_windows, strided_depths
from tir_schedules.cpu.plan.kernel_plan import Plan

BARRIER = "pragma_parallel_barrier_when_finish"


def projections(rows: int, depth: int, columns: Sequence[int], heads: int = 1) -> onnx.ModelProto:
    """As many products of one x as `columns`, every other one with its heads in front."""
    g = Onnx("projections")
    x = g.input("x", (rows, depth))
    for number, width in enumerate(columns):
        weight, bias = g.weight(f"w{number}", (depth, width)), g.weight(f"b{number}", (width,))
        y, shape = g.op("Add", g.op("MatMul", x, weight), bias), (rows, width)
        if number % 2:
            split = g.op("Reshape", y, g.ints(rows, heads, width // heads))
            y, shape = g.op("Transpose", split, perm=[1, 2, 0]), (heads, width // heads, rows)
        g.output(y, f"y{number}", shape)
    return g.model()


def normalised(rows: Sequence[int], depth: int, columns: int, kind: str = "layer") -> Onnx:
    """x @ w + bias + residual, and a normalisation of what that makes."""
    g = Onnx("normalised")
    x, residual = g.input("x", (*rows, depth)), g.input("r", (*rows, columns))
    y = g.op("MatMul", x, g.weight("w", (depth, columns), std=0.1))
    y = g.op("Add", g.op("Add", y, g.weight("b", (columns,))), residual)
    if kind == "layer":
        scale, shift = g.weight("scale", (columns,), mean=1.0), g.weight("shift", (columns,))
        y = g.op("LayerNormalization", y, scale, shift, axis=-1)
    elif kind == "softmax":
        y = g.op("Softmax", y, axis=-1)
    else:
        y = g.op("Div", y, g.op("ReduceMax", g.op("Abs", y), axes=[-2], keepdims=1))
    g.output(y, "y", (*rows, columns))
    return g


def only_plan(model: onnx.ModelProto) -> Plan:
    """Return the plan of the only kernel of a model."""
    (group,) = kernels(model)
    reason, plan = accepted_plan(group.kernel(), sc.device(2))
    assert reason is None and slower(plan, sc.device(2)) is None
    return plan


def barriers(model: onnx.ModelProto) -> int:
    """Return the barriers in the one parallel region of the model's only kernel."""
    built = sc.compiled(model, 2)
    (func,) = (f for f in built.mod.functions.values() if isinstance(f, tirx.PrimFunc))
    assert len(tir.regions(func.body)) == 1
    marks = (s for s, _ in tir.statements(func.body) if isinstance(s, tirx.AttrStmt))
    return sum(s.attr_key == BARRIER for s in marks)


def test_projections_of_one_tensor_are_one_kernel_without_barriers():
    model = projections(128, 256, (256, 256, 256), heads=4)
    plan = only_plan(model)
    assert [sum(g.rows > 1 for g in p.groups) for p in plan.phases] == [1, 1, 1]
    assert not plan.crossing and barriers(model) == 0
    checked(model)


@settings(max_examples=6, deadline=None)
@given(
    rows=st.integers(1, 150),
    depth=st.integers(1, 200),
    columns=st.lists(st.sampled_from([8, 32, 40, 96, 100]), min_size=2, max_size=4),
)
def test_projections_of_any_shape_are_right(rows, depth, columns):
    checked(projections(rows, depth, columns, heads=4))


def test_a_tile_of_fewer_rows_than_lanes_is_not_turned_in_blocks():
    model = projections(112, 23, (40, 96, 100))
    (group,) = kernels(model)
    plan = accepted_plan(group.kernel(), sc.device(2))[1]
    assert min(plan.phases[0].chunks.values()) < sc.device().vector_bytes // 4
    assert not any(g.transposed for p in plan.phases for g in p.groups)
    checked(model)


def test_products_that_wait_for_each_other_are_no_siblings():
    g = Onnx("waits")
    x = g.input("x", (64, 128))
    first = g.op("Softmax", g.op("MatMul", x, g.weight("u", (128, 4096))), axis=0)
    second = g.op("MatMul", first, g.weight("v", (4096, 128)))
    other = g.op("MatMul", x, g.op("Tanh", g.op("Transpose", second, perm=[1, 0])))
    g.output(other, "y", (64, 64))
    checked(g.model())


def layers_that_read_one_memory(count: int, width: int) -> onnx.ModelProto:
    """Layers each with a product of the same tensor, as a decoder's layers read the encoder."""
    g = Onnx("memory")
    x, memory = g.input("x", (128, width)), g.input("memory", (128, width))
    for number in range(count):
        key = g.op("MatMul", memory, g.weight(f"k{number}", (width, width)))
        hidden = g.op("MatMul", x, g.weight(f"h{number}", (width, width)))
        x = g.op("Softmax", g.op("Add", hidden, key), axis=0)
    g.output(x, "y", (128, width))
    return g.model()


def readers_of_the_memory(model: onnx.ModelProto) -> list[int]:
    """Return how many products each kernel has that read the second input."""
    found = []
    for group in kernels(model):
        reads = [n for n in group.nodes if any(t.name == "memory" for t in n.inputs)]
        found.append(len(reads))
    return [count for count in found if count]


def test_results_are_made_no_earlier_than_a_cache_would_hold_them():
    assert max(readers_of_the_memory(layers_that_read_one_memory(4, 128))) > 1
    assert max(readers_of_the_memory(layers_that_read_one_memory(4, 768))) == 1


@pytest.mark.long(every=3)
@pytest.mark.parametrize("kind", ["layer", "softmax"])
@pytest.mark.parametrize("rows", [(128,), (2, 67)])
def test_a_normalisation_behind_a_product_is_one_kernel(rows, kind):
    model = normalised(rows, 512, 768, kind).model()
    plan = only_plan(model)
    product, *behind = plan.phases
    assert [g.rows > 1 for g in product.groups] == [True] and behind
    assert barriers(model) == len(plan.phases)
    checked(model)


def test_pieces_of_a_product_are_in_its_kernel():
    g = Onnx("heads")
    y = g.op("MatMul", g.input("x", (64, 768)), g.weight("w", (768, 2304)))
    y = g.op("Add", y, g.weight("b", (2304,)))
    pieces = g.op("Split", y, g.ints(768, 768, 768), axis=1, outputs=3)
    for number, piece in enumerate(pieces):
        heads = g.op("Reshape", piece, g.ints(64, 12, 64))
        g.output(g.op("Transpose", heads, perm=[1, 0, 2]), f"y{number}", (12, 64, 64))
    only_plan(g.model())
    checked(g.model())


def test_columns_are_normalised_in_tiles_of_columns():
    plan = only_plan(normalised((1024,), 64, 4096, "columns").model())
    assert len(plan.phases) == 1 and not plan.workspace
    checked(normalised((150,), 64, 1000, "columns").model())


def test_rows_that_fit_tiles_enough_stay_in_them():
    plan = only_plan(normalised((4096,), 64, 64).model())
    assert len(plan.phases) == 1 and not plan.workspace


@settings(max_examples=6, deadline=None)
@given(
    rows=st.lists(st.integers(1, 130), min_size=1, max_size=2),
    depth=st.integers(1, 130),
    columns=st.sampled_from([1, 7, 32, 96, 100, 257]),
    kind=st.sampled_from(["layer", "softmax", "columns"]),
)
def test_normalisations_of_any_shape_are_right(rows, depth, columns, kind):
    checked(normalised([*rows[1:], *rows[:1]], depth, columns, kind).model())


def test_what_is_normalised_may_be_read_by_the_next_product_too():
    g = normalised((128,), 256, 512)
    g.output(g.op("Relu", g.op("MatMul", "y", g.weight("v", (512, 256)))), "z", (128, 256))
    assert len(kernels(g.model())) == 2
    checked(g.model())


def test_a_result_beyond_the_cache_crosses_no_barrier():
    assert len(kernels(normalised((1024,), 64, 4096).model())) > 1


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: projections(197, 256, (256, 96, 256)), id="siblings"),
        pytest.param(lambda: normalised((197,), 256, 768).model(), id="rows"),
    ],
)
def test_results_do_not_depend_on_threads(make):
    model = make()
    inputs = sc.zoo.random_inputs(model)
    one, *others = (sc.compiled(model, threads).model.run(inputs) for threads in (1, 2, 5))
    for other in others:
        assert all(np.array_equal(one[name], other[name]) for name in one)


def scores(batch: Sequence[int], rows: int, keys: int, size: int, perm: Sequence[int]) -> Onnx:
    """q @ transposed k; `perm` turns k, whose shape is what it makes of it."""
    g = Onnx("scores")
    made = (*batch, size, keys)
    given_shape = [0] * len(made)
    for place, axis in enumerate(perm):
        given_shape[axis] = made[place]
    q, k = g.input("q", (*batch, rows, size)), g.input("k", given_shape)
    g.output(g.op("MatMul", q, g.op("Transpose", k, perm=perm)), "y", (*batch, rows, keys))
    return g


@pytest.mark.parametrize(
    ("batch", "perm"), [((12,), (0, 2, 1)), ((1, 12), (0, 2, 3, 1)), ((12,), (2, 1, 0))]
)
def test_a_transposed_operand_is_turned_in_the_products_kernel(batch, perm):
    plan = only_plan(scores(batch, 128, 128, 64, perm).model())
    assert any(g.transposed for p in plan.phases for g in p.groups) or perm == (2, 1, 0)
    checked(scores(batch, 128, 128, 64, perm).model())


def test_an_operand_in_ragged_pieces_is_not_turned_in_blocks():
    model = scores((12,), 128, 200, 64, (0, 2, 1)).model()
    (group,) = kernels(model)
    plan = accepted_plan(group.kernel(), sc.device(2))[1]
    assert not any(g.transposed for p in plan.phases for g in p.groups)
    checked(model)


@settings(max_examples=6, deadline=None)
@given(
    batch=st.integers(1, 5),
    rows=st.integers(1, 140),
    keys=st.sampled_from([1, 16, 31, 64, 97, 128, 200]),
    size=st.sampled_from([1, 16, 33, 64]),
    perm=st.permutations(range(3)),
)
def test_transposed_operands_of_any_shape_are_right(batch, rows, keys, size, perm):
    checked(scores((batch,), rows, keys, size, perm).model())


def behind(kind: str, rows: int, depth: int, columns: int, kept: bool = False) -> onnx.ModelProto:
    """A product of what an op makes of x, which is a result itself if `kept`."""
    g = Onnx("prologue")
    x = g.input("x", (rows, depth))
    before = g.op(kind, x, axis=-1) if kind == "Softmax" else g.op(kind, x)
    g.output(g.op("MatMul", before, g.weight("w", (depth, columns))), "y", (rows, columns))
    if kept:
        g.output(g.op("Identity", before), "before", (rows, depth))
    return g.model()


@pytest.mark.parametrize("kind", ["Tanh", "Relu", "Softmax"])
@pytest.mark.parametrize("sizes", [(128, 256, 256), (512, 64, 512)])
def test_ops_before_a_product_are_in_its_kernel(kind, sizes):
    only_plan(behind(kind, *sizes))
    checked(behind(kind, *sizes))


@pytest.mark.long(every=3)
@pytest.mark.parametrize("kind", ["Tanh", "Softmax"])
@pytest.mark.parametrize("sizes", [(128, 256, 256), (97, 131, 100), (1, 512, 1024), (300, 7, 300)])
def test_ops_before_a_product_may_be_read_elsewhere(kind, sizes):
    checked(behind(kind, *sizes))
    checked(behind(kind, *sizes, kept=True))


def test_a_result_of_the_model_is_made_by_its_own_kernel():
    assert len(kernels(behind("Softmax", 128, 256, 256, kept=True))) > 1


def separable(channels: int, size: int) -> onnx.ModelProto:
    """A 1x1 convolution, a depthwise one with padding, and a 1x1 one, as MobileNet has them."""
    g = Onnx("separable")
    x = g.input("x", (1, 16, size, size))
    for number, (kernel, depth) in enumerate([(1, 16), (3, 1), (1, channels)]):
        weight = g.weight(f"w{number}", (channels, depth, kernel, kernel), std=0.2)
        group, pads = (channels, [1] * 4) if kernel == 3 else (1, [0] * 4)
        x = g.op("Relu", g.op("Conv", x, weight, g.weight(f"b{number}", (channels,)),
                              group=group, pads=pads, kernel_shape=[kernel] * 2))  # fmt: skip
    g.output(x, "y", (1, channels, size, size))
    return g.model()


@pytest.mark.parametrize(("channels", "size"), [(96, 56), (32, 112)])
def test_padding_that_no_loop_settles_keeps_a_product_apart(channels, size):
    model = separable(channels, size)
    for group in kernels(model):
        _, plan = accepted_plan(group.kernel(), sc.device(2))
        products = [g for p in plan.phases for g in p.groups if g.rows > 1]
        assert not products or not guarded_windows(plan)
    checked(model)


@pytest.mark.parametrize("batch", [1, 8])
def test_an_image_is_not_read_across_its_channels(batch):
    """Turned to channels last inside the product, each step would be another line of the image."""
    g = Onnx("window")
    x = g.input("x", (batch, 64, 14, 14))
    weight = g.weight("w", (64, 64, 3, 3), std=0.1)
    y = g.op("Conv", x, weight, strides=[2, 2], pads=[1] * 4, kernel_shape=[3, 3])
    g.output(y, "y", (batch, 64, 7, 7))
    for group in kernels(g.model()):
        _, plan = accepted_plan(group.kernel(), sc.device(2))
        assert strided_depths(plan) == []
    checked(g.model())
