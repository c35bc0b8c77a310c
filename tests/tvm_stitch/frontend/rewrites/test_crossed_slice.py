"""Slices that begin or end outside of their axis, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvm_stitch

# Where each begins and ends along an axis of five, and its step.
ALONG = [
    *((5, 2, 1), (2, 5, -1), (9, 9, 1), (-9, -9, 1), (7, 9, 2), (0, 0, 1)),  # nothing
    *((-9, -9, -1), (-6, -8, -3), (-7, -99, -2), (-5, -6, -1), (-9, 3, -1)),  # walk back
    *((-1, -9, -2), (9, -9, -1), (-9, 9, 3), (1 << 40, -(1 << 40), -2)),
]


@pytest.mark.long(every=5)
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("along", ALONG)
def test_elements_are_those_that_onnx_runtime_takes(along, constant):
    x = np.random.default_rng(1).standard_normal((3, 5)).astype(np.float32)
    names = dict(zip("sep", along, strict=True)) | {"a": -1}
    weights = [numpy_helper.from_array(np.array([n]), name) for name, n in names.items()]
    nodes = [
        helper.make_node("Slice", ["x", "s", "e", "a", "p"], ["q"]),
        helper.make_node("ReduceSum", ["q"], ["t"]),
        helper.make_node("Add", ["t", "z"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    inputs = [info("z", TensorProto.FLOAT, [1])]
    if constant:
        weights.append(numpy_helper.from_array(x, "x"))
    else:
        inputs.append(info("x", TensorProto.FLOAT, [3, 5]))
    outputs = [info("y", TensorProto.FLOAT, [1, 1])]
    graph = helper.make_graph(nodes, "slice", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 18)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    feeds = {"z": np.ones(1, np.float32)} | ({} if constant else {"x": x})
    (want,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)
    got = tvm_stitch.compile(proto).run(feeds)["y"]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
