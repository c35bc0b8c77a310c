"""Convolutions of single pixels as products of the image as it lies, where that is theirs alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax
from zoo.graph import Graph

import tvm_stitch
from relay_passes.transform import PackWeights, PointwiseProducts
from support.kernels import stitch_case as sc
from support.kernels.checked import checked
from support.kernels.planned import kernels
from support.models import relax_models as rm
from tir_schedules.cpu.accept.acceptance import accepted_plan
from tvm_stitch.frontend import import_model


def convolution(
    image: Sequence[int], channels: int, stride: int = 1, size: int = 1, groups: int = 1
) -> Graph:
    """One convolution, its bias and an activation; `image` has batch and channels in front."""
    g = Graph("convolution")
    batch, depth, *sizes = image
    w = g.weight("w", (channels, depth // groups, *[size] * len(sizes)), std=0.2)
    y = g.op("Conv", g.input("x", image), w, g.weight("b", (channels,)), group=groups,
             strides=[stride] * len(sizes), kernel_shape=[size] * len(sizes))  # fmt: skip
    made = [(n - size) // stride + 1 for n in sizes]
    g.output(g.op("Relu", y), "y", (batch, channels, *made))
    return g


def operators(model: onnx.ModelProto) -> list[str]:
    mod = PointwiseProducts(sc.device(2))(import_model(model).mod)
    found: list[str] = []
    relax.analysis.post_order_visit(
        mod["main"], lambda e: found.append(e.op.name) if isinstance(e, relax.Call) else None
    )
    return found


@pytest.mark.long(every=3)
@pytest.mark.parametrize(
    "image", [(2, 24, 32, 32), (1, 17, 1, 32), (3, 8, 64), (1, 16, 8, 8, 10), (1, 1, 32, 3)]
)
@pytest.mark.parametrize("stride", [1, 2])
def test_pointwise_convolutions_are_right(image, stride):
    checked(convolution(image, 24, stride).model())


@settings(max_examples=8, deadline=None)
@given(
    batch=st.integers(1, 3),
    depth=st.integers(1, 70),
    channels=st.integers(1, 70),
    pixels=st.sampled_from([(16, 16), (31, 33), (12, 64), (1, 97), (57, 57)]),
    stride=st.sampled_from([1, 1, 2, 3]),
)
def test_pointwise_convolutions_of_any_shape_are_right(batch, depth, channels, pixels, stride):
    checked(convolution((batch, depth, *pixels), channels, stride).model())


@pytest.mark.parametrize("image", [(1, 60, 32, 32), (2, 32, 8, 64), (1, 96, 64)])
@pytest.mark.parametrize("stride", [1, 2])
def test_pointwise_convolutions_of_groups_are_batches_of_products(image, stride):
    model = convolution(image, 24, stride, groups=4).model()
    assert "relax.matmul" in operators(model)
    checked(model)


@pytest.mark.parametrize("groups", [1, 4])
def test_a_pointwise_convolution_is_one_kernel_with_a_register_tile(groups):
    model = convolution((2, 64, 56, 56), 96, groups=groups).model()
    assert tvm_stitch.explain(model, threads=2).kernels == 1
    (group,) = (g for g in kernels(model) if len(g.nodes) > 1)
    reason, plan = accepted_plan(group.kernel(), sc.device(2))
    assert reason is None
    assert [g.rows > 1 for p in plan.phases for g in p.groups] == [True]


@pytest.mark.long(every=3)
@pytest.mark.parametrize(
    "model",
    [
        pytest.param(convolution((1, 16, 32, 32), 32, size=3), id="window"),
        pytest.param(convolution((1, 32, 32, 32), 32, groups=32), id="depthwise"),
        pytest.param(convolution((1, 512, 7, 7), 512), id="lanes to spare"),
        pytest.param(convolution((1, 64, 1, 1), 64), id="one pixel"),
        pytest.param(convolution((2, 32, 2, 2), 32), id="a few pixels"),
        pytest.param(convolution((8, 576, 7, 7), 160), id="lanes to spare in each image"),
        pytest.param(convolution((8, 1024, 14, 14), 256), id="turned in the cache"),
    ],
)
def test_others_stay_convolutions(model):
    assert "relax.matmul" not in operators(model.model())
    checked(model.model())


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(convolution((1, 64, 14, 14), 48), id="little work"),
        pytest.param(convolution((2, 32, 4, 4), 32), id="half a strip"),
        pytest.param(convolution((1, 576, 7, 7), 160), id="no more than two kernels take"),
        pytest.param(convolution((4, 96, 56, 56), 64, stride=4), id="most pixels unread"),
    ],
)
def test_images_are_not_turned_for_a_few_idle_lanes(model):
    assert "relax.matmul" in operators(model.model())
    checked(model.model())


@pytest.mark.long(every=2)
@pytest.mark.parametrize("image", [(8, 512, 28, 28), (2, 512, 17, 17), (4, 700, 45)])
def test_only_the_pixels_that_count_are_turned(image):
    model = convolution(image, 1024, stride=2).model()
    found = [name for name in operators(model) if "slice" in name or "conv" in name]
    assert found == ["relax.strided_slice", f"relax.nn.conv{len(image) - 2}d"]
    checked(model)


def test_few_pixels_of_a_line_are_turned_with_the_others():
    model = convolution((8, 1024, 14, 14), 1024, stride=2).model()
    assert not {"relax.strided_slice", "relax.matmul"} & set(operators(model))
    checked(model)


def test_convolutions_in_a_row_share_a_layout_instead():
    g = Graph("row")
    x = g.input("x", (1, 32, 32, 32))
    y = g.op("Relu", g.op("Conv", x, g.weight("u", (48, 32, 1, 1))))
    g.output(g.op("Conv", y, g.weight("v", (16, 48, 1, 1))), "y", (1, 16, 32, 32))
    assert "relax.matmul" not in operators(g.model())
    assert operators(convolution((1, 32, 32, 32), 48).model()).count("relax.matmul") == 1
    checked(g.model())


def test_convolutions_of_other_images_do_not_matter():
    g = Graph("apart")
    for number in range(2):
        x = g.input(f"x{number}", (1, 32, 32, 32))
        y = g.op("Conv", x, g.weight(f"w{number}", (48, 32, 1, 1)))
        flat = g.op("ReduceMean", y, axes=[2, 3], keepdims=0)
        g.output(flat, f"y{number}", (1, 48))
    assert operators(g.model()).count("relax.matmul") == 2
    checked(g.model())


def test_a_slice_is_no_obstacle_to_packing():
    x, w = rm.arrays((64, 64), (64, 64))

    def emit(b: relax.BlockBuilder, p: relax.Var) -> relax.Var:
        half = b.emit(relax.op.strided_slice(p, [0], [0], [64], [2]))
        return b.emit(relax.op.matmul(half, relax.const(w)))

    mod = rm.module(emit, x)
    built = tvm_stitch.compile(mod, threads=1)
    (got,) = built.run({built.meta.inputs[0].name: x}).values()
    np.testing.assert_allclose(got, x[::2].astype("f8") @ w.astype("f8"), rtol=1e-4, atol=1e-4)
    names = [v.name_hint for v in PackWeights(sc.device(1))(mod).get_global_vars()]
    assert "packed_matmul" in names


def test_a_reshape_before_a_product_is_no_kernel():
    g = Graph("reshape")
    x = g.op("Reshape", g.input("x", (4, 8, 64)), g.ints(32, 64))
    g.output(g.op("MatMul", x, g.weight("w", (64, 512))), "y", (32, 512))
    assert tvm_stitch.explain(g.model(), threads=2).kernels == 1
    checked(g.model())
