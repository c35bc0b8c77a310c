"""Small right models, from which hostile ones are made."""

from __future__ import annotations

import functools

import numpy as np
import onnx
from onnx import TensorProto, helper

from support.frontend import elementwise, layout, reductions, windows
from support.frontend.case import FLOAT, INT64, array, indexed, linear, model

BOOL = TensorProto.BOOL


@functools.cache
def seeds() -> tuple[onnx.ModelProto, ...]:
    """Return each operator in its variants, and networks of a few nodes."""
    modules = (elementwise, layout, reductions, windows)
    alone = [case.model() for module in modules for case in module.CASES]
    return (*alone, *[each() for each in NETWORKS for _ in range(WEIGHT)])


def branches() -> onnx.ModelProto:
    """Return an If whose bodies read outer values and make constants."""
    out = [helper.make_tensor_value_info("b", FLOAT, [2, 3])]
    some = helper.make_graph([helper.make_node("Add", ["x", "w"], ["b"])], "some", [], out)
    value = onnx.numpy_helper.from_array(array(3))
    nodes = [
        helper.make_node("Constant", [], ["c"], value=value),
        helper.make_node("Mul", ["x", "c"], ["b"]),
    ]
    other = helper.make_graph(nodes, "other", [], out)
    node = helper.make_node("If", ["p"], ["y"], then_branch=some, else_branch=other)
    inputs = {"p": (BOOL, []), "x": (FLOAT, [2, 3])}
    return model([node], inputs, {"y": (FLOAT, [2, 3])}, {"w": array(3)})


def functions() -> onnx.ModelProto:
    """Return two calls of a function that calls another."""
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]
    inner = helper.make_function(
        "my", "Inner", ["a"], ["b"], [helper.make_node("Exp", ["a"], ["b"])], opsets
    )
    nodes = [
        helper.make_node("Inner", ["a"], ["h"], domain="my"),
        helper.make_node("Add", ["h", "a"], ["b"]),
    ]
    outer = helper.make_function("my", "Outer", ["a"], ["b"], nodes, opsets)
    calls = [helper.make_node("Outer", [i], [o], domain="my") for i, o in ("xh", "hy")]
    spec = {"x": (FLOAT, [4])}, {"y": (FLOAT, [4])}
    return model(calls, *spec, opsets=opsets[1:], functions=[inner, outer])


def convolutions() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("BatchNormalization", ["c", "s", "s", "s", "v"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "g", "s"], ["y"], transB=1),
    ]
    weights = {"w": array(8, 3, 3, 3), "s": array(8), "v": array(8) ** 2, "g": array(8, 8)}
    return model(nodes, {"x": (FLOAT, [1, 3, 8, 8])}, {"y": (FLOAT, None)}, weights)


def attention() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Transpose", ["k"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "t"], ["s"]),
        helper.make_node("Where", ["m", "s", "low"], ["h"]),
        helper.make_node("Softmax", ["h"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "k"], ["y"]),
    ]
    inputs = {"q": (FLOAT, [2, 4, 8]), "k": (FLOAT, [2, 4, 8]), "m": (BOOL, [4, 4])}
    return model(nodes, inputs, {"y": (FLOAT, None)}, {"low": np.array(-1e9, "f4")})


def shape_arithmetic() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "zero", "one"], ["n"]),
        helper.make_node("Concat", ["n", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["x", "to"], ["r"]),
        helper.make_node("Div", ["s", "two"], ["half"]),
        helper.make_node("Gather", ["half", "zero"], ["h"], axis=0),
        helper.make_node("ConstantOfShape", ["h"], ["ones"]),
        helper.make_node("Expand", ["ones", "to"], ["e"]),
        helper.make_node("Add", ["r", "e"], ["y"]),
    ]
    weights = {"zero": np.array([0]), "one": np.array([1]), "two": np.array([2]),
               "rest": np.array([2, -1, 1])}  # fmt: skip
    weights["rest"][1] = 3
    return model(nodes, {"x": (FLOAT, [2, 6])}, {"y": (FLOAT, None)}, weights)


def embedding() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Gather", ["t", "ids"], ["g"]),
        helper.make_node("LayerNormalization", ["g", "s", "s"], ["y"], axis=-1),
    ]
    return indexed(nodes, [2, 3], {"t": array(5, 8), "s": array(8)})


def several() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2),
        helper.make_node("TopK", ["a", "k"], ["v", "i"]),
        helper.make_node("ReduceSum", ["b", "axes"], ["r"], keepdims=0),
        helper.make_node("Pad", ["v", "pads"], ["y"]),
    ]
    weights = {"k": np.array([2]), "axes": np.array([1]), "pads": np.array([0, 1, 0, 1])}
    outputs = {"y": (FLOAT, None), "i": (INT64, None), "r": (FLOAT, None)}
    return model(nodes, {"x": (FLOAT, [3, 8])}, outputs, weights)


def old() -> onnx.ModelProto:
    """Return what opset 6 has in other forms."""
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], broadcast=1, axis=1),
        helper.make_node("PRelu", ["a", "b"], ["p"]),
        helper.make_node("Slice", ["p"], ["c"], axes=[2], starts=[1], ends=[9]),
        helper.make_node("Dropout", ["c"], ["y"], is_test=1),
    ]
    return model(nodes, {"x": (FLOAT, [1, 3, 4, 4])}, {"y": (FLOAT, None)}, {"b": array(3)}, 6)


def listed() -> onnx.ModelProto:
    """Return a sequence that is filled, changed and read, and random numbers."""
    nodes = [
        helper.make_node("SplitToSequence", ["x", "sizes"], ["s"], axis=1),
        helper.make_node("RandomNormalLike", ["x"], ["r"], seed=1.0),
        helper.make_node("SequenceInsert", ["s", "r", "at"], ["t"]),
        helper.make_node("SequenceErase", ["t"], ["u"]),
        helper.make_node("SequenceAt", ["u", "at"], ["v"]),
        helper.make_node("Multinomial", ["v"], ["y"], sample_size=3),
    ]
    weights = {"sizes": np.array([2, 4]), "at": np.array(-1)}
    return model(nodes, {"x": (FLOAT, [3, 6])}, {"y": (TensorProto.INT32, None)}, weights)


NETWORKS = (
    branches, functions, convolutions, attention, shape_arithmetic, embedding, several, old, listed,
    lambda: linear(3),
)  # fmt: skip
WEIGHT = 20  # times as often as an operator alone
