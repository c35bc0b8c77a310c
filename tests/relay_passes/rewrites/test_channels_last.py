"""Images stay channels last between convolutions, and every graph around them stays right."""

from __future__ import annotations

import onnx
import pytest
import zoo
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator
from tvm import relax
from zoo.graph import Graph

import tvm_stitch
from relay_passes.transform import ChannelsLast
from support.kernels import stitch_case as sc
from support.kernels.checked import checked
from tvm_stitch.frontend import import_model
from tvm_stitch.frontend.origins import origin_of


def operators(model: onnx.ModelProto) -> list[str]:
    main = ChannelsLast()(import_model(model).mod)["main"]
    found: list[str] = []

    def visit(node: relax.Expr) -> None:
        if isinstance(node, relax.Call):
            found.append(node.op.name)

    relax.analysis.post_order_visit(main, visit)
    return found


def residual_block(name: str = "block") -> Graph:
    g = Graph(name)
    x = g.input("x", (2, 16, 10, 9))
    y = g.op("Relu", conv(g, x, 16, 16))
    y = g.op("Add", conv(g, y, 16, 16), x)
    y = g.op("MaxPool", g.op("Relu", y), kernel_shape=[2, 2], strides=[2, 2])
    y = g.op("GlobalAveragePool", y)
    g.output(g.op("Flatten", y), "y", (2, 16))
    return g


def conv(
    g: Graph, x: str, depth: int, channels: int, size: int = 3, groups: int = 1, stride: int = 1
) -> str:
    number = len(g.initializers)
    w = g.weight(f"w{number}", (channels, depth // groups, size, size), std=0.2)
    b = g.weight(f"b{number}", (channels,))
    pads = [size // 2] * 4
    options = {"kernel_shape": [size] * 2, "pads": pads, "strides": [stride] * 2}
    return g.op("Conv", x, w, b, group=groups, **options)


def test_one_block_is_transposed_at_its_borders_only():
    activations = operators(residual_block().model()).count("relax.permute_dims")
    biases = 2  # (1, C, 1, 1), computed at import
    assert activations - biases <= 2
    checked(residual_block().model())


def test_what_is_turned_is_still_known_by_its_node():
    imported = import_model(residual_block().model())
    main = ChannelsLast()(imported.mod)["main"]
    bindings = [binding for block in main.body.blocks for binding in block.bindings]
    turned = [b.var.name for b in bindings if "conv2d" in b.value.op.name]
    assert [origin_of(name, imported.origins) for name in turned] == [
        "Conv '/Conv'",
        "Conv '/Conv_1'",
    ]


@pytest.mark.parametrize("stride", [1, 2])
def test_a_depthwise_convolution_by_itself_stays_as_it_is(stride):
    g = Graph("depthwise")
    x = g.input("x", (1, 24, 20, 19))
    y = g.op("Relu", conv(g, x, 24, 24, groups=24, stride=stride))
    g.output(y, "y", (1, 24, -(-20 // stride), -(-19 // stride)))
    assert "relax.permute_dims" not in operators(g.model())
    checked(g.model())


@pytest.mark.parametrize(
    ("groups", "stride", "turned"), [(16, 1, False), (16, 2, True), (4, 1, True)]
)
def test_a_lone_convolution_of_groups_is_turned_where_they_fill_lanes(groups, stride, turned):
    g = Graph("groups")
    x = g.input("x", (1, 64, 20, 19))
    y = g.op("Relu", conv(g, x, 64, 64, groups=groups, stride=stride))
    g.output(y, "y", (1, 64, -(-20 // stride), -(-19 // stride)))
    assert ("relax.permute_dims" in operators(g.model())) == turned
    checked(g.model())


def test_a_graph_without_convolutions_is_left_alone():
    model = zoo.subgraph("softmax", (4, 96))
    assert operators(model).count("relax.permute_dims") == 0


def test_a_net_keeps_its_images_channels_last():
    found = operators(small_net())
    assert found.count("relax.permute_dims") - found.count("relax.add") <= 2
    checked(small_net())


def test_a_value_is_turned_back_once_for_all_who_ask():
    g = Graph("asked twice")
    y = conv(g, g.input("x", (1, 8, 9, 9)), 8, 16)
    for number, axis in enumerate((1, 2)):
        g.output(g.op("Softmax", y, axis=axis), f"y{number}", (1, 16, 9, 9))
    activations = operators(g.model()).count("relax.permute_dims") - 1  # a bias
    assert activations == 2
    checked(g.model())


def test_normalisation_and_clip_stay_channels_last():
    g = Graph("normalised")
    y = conv(g, g.input("x", (1, 3, 9, 9)), 3, 16)
    scale, bias = g.weight("scale", (16,)), g.weight("bias", (16,))
    mean, variance = g.weight("mean", (16,)), g.weight("variance", (16,))
    variance = g.op("Exp", variance)
    y = g.op("BatchNormalization", y, scale, bias, mean, variance)
    y = g.op("Clip", y, g.constant(0.0), g.constant(6.0))
    g.output(conv(g, y, 16, 8), "y", (1, 8, 9, 9))
    found = operators(g.model())
    of_weights = found.count("relax.add") + found.count("relax.multiply")
    assert found.count("relax.permute_dims") - of_weights <= 2
    checked(g.model())


def small_net() -> onnx.ModelProto:
    g = Graph("net")
    y = g.input("x", (1, 3, 17, 17))
    depth = 3
    for channels in (16, 32, 32, 24):
        y = g.op("Relu", conv(g, y, depth, channels))
        depth = channels
    g.output(y, "y", (1, depth, 17, 17))
    return g.model()


@st.composite
def graphs(draw: st.DrawFn) -> onnx.ModelProto:
    g = Graph("random")
    depth, height, width = 8, draw(st.integers(1, 9)), draw(st.integers(1, 9))
    batch = draw(st.integers(1, 2))
    values = [g.input("x", (batch, depth, height, width))]
    for _ in range(draw(st.integers(1, 6))):
        value = draw(st.sampled_from(values))
        other = draw(st.sampled_from(values))
        values.append(
            draw(
                st.sampled_from(
                    [
                        lambda v=value: conv(g, v, depth, depth),
                        lambda v=value: conv(g, v, depth, depth, size=1),
                        lambda v=value: conv(g, v, depth, depth, groups=depth),
                        lambda v=value: conv(g, v, depth, depth, groups=2),
                        lambda v=value: g.op("Relu", v),
                        lambda v=value: g.op("Clip", v, g.constant(-0.5), g.constant(0.5)),
                        lambda v=value, o=other: g.op("Add", v, o),
                        lambda v=value: g.op("Mul", v, g.weight("scale", (1, depth, 1, 1))),
                        lambda v=value: g.op("Mul", v, g.weight("row", (width,))),
                        lambda v=value: g.op("Softmax", v, axis=1),
                        lambda v=value: g.op("Mul", v, g.op("GlobalAveragePool", v)),
                        *(
                            lambda v=value, n=count_padding: g.op(
                                "AveragePool",
                                v,
                                kernel_shape=[3, 3],
                                pads=[1, 1, 1, 1],
                                count_include_pad=n,
                            )
                            for count_padding in (0, 1)
                        ),
                        lambda v=value: g.op("Sub", v, g.op("ReduceMean", v, axes=[1])),
                    ]
                )
            )()
        )
    for number, value in enumerate(values[-2:] if len(values) > 2 else values[-1:]):
        g.output(value, f"y{number}", (batch, depth, height, width))
    return g.model()


@settings(max_examples=8, deadline=None)
@given(graphs())
def test_random_image_graphs_are_right(model):
    checked(model, 2e-5)


@pytest.mark.parametrize("groups", [1, 8])
def test_a_kernel_that_is_an_input_is_right(groups):
    g = Graph("input kernel")
    x, w = g.input("x", (1, 8, 9, 9)), g.input("w", (16, 8 // groups, 3, 3))
    g.output(g.op("Conv", x, w, pads=[1, 1, 1, 1], group=groups), "y", (1, 16, 9, 9))
    checked(g.model())


def test_float64_images_are_right():
    g = Graph("wide", dtype="float64")
    g.output(conv(g, g.input("x", (1, 5, 8, 8)), 5, 16), "y", (1, 16, 8, 8))
    model = g.model()
    inputs = zoo.random_inputs(model)
    (expected,) = ReferenceEvaluator(model).run(None, inputs)
    sc.assert_close(tvm_stitch.compile(model).run(inputs), {"y": expected}, 1e-12)


@pytest.mark.parametrize(("dtype", "turned"), [("float32", True), ("float64", False)])
def test_a_result_of_another_dtype_is_left_to_tvm(dtype, turned):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 32, 9, 9), "float32"))
    w = relax.Var("w", relax.TensorType((32, 32, 3, 3), "float32"))
    with builder.function("main", [x, w]):
        with builder.dataflow():
            y = builder.emit_output(relax.op.nn.conv2d(x, w, out_dtype=dtype))
        builder.emit_func_output(y)
    assert ("NHWC" in ChannelsLast()(builder.get())["main"].script()) == turned
