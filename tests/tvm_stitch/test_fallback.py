"""Nodes that no compiler here has, run by ONNX Runtime within the model."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvm_stitch
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.importer.converters import CONVERTERS
from tvm_stitch.runtime import onnx_segment

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
OPSETS = [helper.make_opsetid(d, v) for d, v in (("", 17), ("ai.onnx.ml", 3), ("com.microsoft", 1))]
RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 8)).astype(np.float32)
WEIGHTS = {"w": RNG.standard_normal((8, 6)), "b": RNG.standard_normal(6)}
# One tree of one question.
TREE = {
    "n_targets": 1,
    "nodes_falsenodeids": [2, 0, 0],
    "nodes_featureids": [1, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_nodeids": [0, 1, 2],
    "nodes_treeids": [0, 0, 0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_values": [0.1, 0.0, 0.0],
    "target_ids": [0, 0],
    "target_nodeids": [1, 2],
    "target_treeids": [0, 0],
    "target_weights": [2.5, -1.0],
}


def node(op: str, inputs: str, outputs: str, domain: str = "", **attrs) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), domain=domain, **attrs)


def model(*nodes: onnx.NodeProto, outputs: str = "y") -> onnx.ModelProto:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "fallback",
        [info("x", FLOAT, [4, 8])],
        [onnx.ValueInfoProto(name=name) for name in outputs.split()],
        [numpy_helper.from_array(v.astype(np.float32), n) for n, v in WEIGHTS.items()],
    )
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=8)


TREES = model(
    node("Gemm", "x w b", "h"),
    node("Relu", "h", "m"),
    node("TreeEnsembleRegressor", "m", "t", "ai.onnx.ml", **TREE),
    node("FusedMatMul", "m w", "f", "com.microsoft", transB=1, alpha=0.5),
    node("Add", "f t", "s"),
    node("Softmax", "s", "y"),
)
# Two segments, ours between them; one of two results, that ONNX types alone.
TWICE = model(
    node("Unique", "x", "u i v c"),
    node("ReduceSum", "u", "n", keepdims=1),
    node("Reshape", "n one", "k"),
    node("Add", "x k", "a"),
    node("FusedMatMul", "a w", "f", "com.microsoft"),
    node("Relu", "f", "y"),
)
TWICE.graph.initializer.append(numpy_helper.from_array(np.array([1]), "one"))
KEPT = model(node("Relu", "x", "y"))


def expected(proto: onnx.ModelProto) -> np.ndarray:
    return onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": X})[0]


@pytest.mark.parametrize("proto", [TREES, KEPT], ids=["trees", "none"])
def test_a_model_is_what_onnx_runtime_makes_of_it(proto, tmp_path):
    made = tvm_stitch.compile(proto, fallback="onnxruntime")
    np.testing.assert_allclose(made.run({"x": X})["y"], expected(proto), rtol=1e-5, atol=1e-6)
    made.export(tmp_path / "model.so")
    loaded = tvm_stitch.load(tmp_path / "model.so")
    np.testing.assert_array_equal(loaded.run({"x": X})["y"], made.run({"x": X})["y"])


def test_what_left_is_named_and_the_rest_is_fused():
    made = tvm_stitch.compile(TREES, fallback="onnxruntime")
    assert [told.partition(" ")[0] for told in made.meta.left] == [
        "ai.onnx.ml.TreeEnsembleRegressor",
        "com.microsoft.FusedMatMul",
    ]
    assert made.report.kernels == 3  # before the segment, it, and behind it
    assert not tvm_stitch.compile(KEPT, fallback="onnxruntime").meta.left


def test_a_shape_of_data_stays_within_a_segment():
    made = tvm_stitch.compile(TWICE, fallback="onnxruntime")
    np.testing.assert_allclose(made.run({"x": X})["y"], expected(TWICE), rtol=1e-5, atol=1e-5)


def test_without_it_the_nodes_and_the_remedy_are_named():
    with pytest.raises(StitchError, match=r'TreeEnsembleRegressor.*fallback="onnxruntime"'):
        tvm_stitch.compile(TREES)


def test_an_operator_that_no_one_has_is_refused_in_one_line():
    with pytest.raises(StitchError, match="ONNX Runtime refuses it") as told:
        tvm_stitch.compile(model(node("Nope", "x", "y", "com.microsoft")), fallback="onnxruntime")
    assert "\n" not in str(told.value)


def test_a_model_may_name_no_operator_set_of_onnx_own():
    proto = model(node("TreeEnsembleRegressor", "x", "y", "ai.onnx.ml", **TREE))
    del proto.opset_import[:]
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    made = tvm_stitch.compile(proto, fallback="onnxruntime")
    np.testing.assert_array_equal(made.run({"x": X})["y"], expected(proto))
    with pytest.raises(StitchError, match=r'TreeEnsembleRegressor.*fallback="onnxruntime"'):
        tvm_stitch.compile(proto)


def test_a_machine_without_onnx_runtime_says_so(monkeypatch):
    monkeypatch.setattr(onnx_segment.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(StitchError, match=r"pip install 'tvm-stitch\[onnxruntime\]'"):
        tvm_stitch.compile(TREES, fallback="onnxruntime")


def test_an_unknown_fallback_is_refused():
    with pytest.raises(StitchError, match="use one of refuse, onnxruntime"):
        tvm_stitch.compile(KEPT, fallback="tensorrt")


def test_what_the_importer_refuses_leaves_too(monkeypatch):
    def refuse(*_):
        raise ValueError("no such form")

    monkeypatch.setitem(CONVERTERS, "Tanh", refuse)
    proto = model(node("Gemm", "x w b", "h"), node("Tanh", "h", "t"), node("Softmax", "t", "y"))
    with pytest.raises(StitchError, match="no such form"):
        tvm_stitch.compile(proto)
    made = tvm_stitch.compile(proto, fallback="onnxruntime")
    (left,) = made.meta.left
    assert "Tanh" in left and "no such form" in left
    np.testing.assert_allclose(made.run({"x": X})["y"], expected(proto), rtol=1e-5, atol=1e-6)


TRAINED = model(
    node("BatchNormalization", "x g o m v", "n a c", training_mode=1, momentum=0.7),
    node("Relu", "n", "y"),
    outputs="y a c",
)
for name in "gomv":
    TRAINED.graph.initializer.append(
        numpy_helper.from_array(RNG.uniform(1, 2, 8).astype(np.float32), name)
    )


def test_what_a_rewrite_refuses_leaves_whether_or_not_tvm_has_it():
    """TVM's converters know no training: they normalise by the statistics of before."""
    made = tvm_stitch.compile(TRAINED, fallback="onnxruntime")
    (left,) = made.meta.left
    assert "BatchNormalization" in left and "training mode" in left
    got = made.run({"x": X})
    wanted = onnxruntime.InferenceSession(TRAINED.SerializeToString()).run(None, {"x": X})
    for name, want in zip("yac", wanted, strict=True):
        np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("ratio", [0.0, 0.5])
def test_a_dropout_that_trains_leaves_with_its_scalars(ratio):
    proto = model(node("Dropout", "x r t", "d"), node("Neg", "d", "y"))
    for name, value in (("r", np.float32(ratio)), ("t", np.True_)):
        proto.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    made = tvm_stitch.compile(proto, fallback="onnxruntime")
    assert "training_mode is set" in made.meta.left[0]
    got = made.run({"x": X})["y"]
    kept = got != 0
    np.testing.assert_allclose(got[kept], -X[kept] / np.float32(1 - ratio), rtol=1e-6)
    assert kept.all() == (ratio == 0)
