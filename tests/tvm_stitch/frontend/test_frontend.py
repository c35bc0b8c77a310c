"""What import_model returns, keeps and refuses."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.frontend.case import FLOAT, array, indexed, linear, model, run_stock
from tvm_stitch.frontend import TensorSpec, import_model


def check(proto, feeds, shapes=None, given=None, rtol=1e-5):
    """Import `given` (the model itself by default), run it, compare with ONNX Runtime."""
    imported = import_model(proto if given is None else given, shapes)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    want = session.run(None, feeds)
    for got, expected in zip(run_stock(imported, feeds), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol)
    return imported


def test_names_are_onnx_own_and_weights_follow_the_inputs():
    imported = check(linear(), {"input.1": array(3, 8)}, {"input.1": (3, 8)})
    assert imported.inputs == (TensorSpec("input.1", (3, 8), "float32"),)
    assert imported.outputs == (TensorSpec("out:0", (3, 16), "float32"),)
    assert int(imported.mod["main"].attrs["num_input"]) == 1
    assert [w.shape for w in imported.weights] == [(8, 16), (16,)]
    assert len(imported.mod["main"].params) == 3


def test_names_that_collide_as_identifiers_stay_apart():
    proto = model(
        [helper.make_node("Sub", ["a.b", "a_b"], ["a b"])],
        {"a.b": (FLOAT, [2]), "a_b": (FLOAT, [2])},
        {"a b": (FLOAT, [2])},
    )
    imported = check(proto, {"a.b": array(2), "a_b": array(2)})
    assert [spec.name for spec in imported.inputs] == ["a.b", "a_b"]


def test_outputs_may_be_inputs_initializers_and_repeated_values():
    proto = model(
        [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["z"])],
        {"x": (FLOAT, [3])},
        {"z": (FLOAT, [3]), "y": (FLOAT, [3]), "w": (FLOAT, [2, 2]), "s": (FLOAT, [])},
        {"w": array(2, 2), "s": np.array(2, "f4")},
    )
    imported = check(proto, {"x": array(3)})
    assert [spec.name for spec in imported.outputs] == ["z", "y", "w", "s"]


def test_initializers_listed_as_inputs_are_weights():
    proto = linear(3)
    proto.graph.input.append(helper.make_tensor_value_info("b", FLOAT, [16]))
    assert [spec.name for spec in import_model(proto).inputs] == ["input.1"]


def test_the_given_message_is_not_modified():
    proto = linear()
    before = proto.SerializeToString()
    import_model(proto, {"input.1": (2, 8)})
    assert proto.SerializeToString() == before


@pytest.mark.parametrize("external", [False, True], ids=["inline", "external"])
def test_a_path_gives_the_same_and_leaves_no_file_behind(tmp_path, external):
    path = tmp_path / "m.onnx"
    proto = linear(3)
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(array(8, 4096), "layer/w"))
    proto.graph.initializer[1].CopyFrom(numpy_helper.from_array(array(4096), "b"))
    plain = onnx.ModelProto.FromString(proto.SerializeToString())
    onnx.save(proto, path, save_as_external_data=external, location="w.bin", size_threshold=64)
    before = sorted(p.name for p in tmp_path.iterdir())
    imported = check(plain, {"input.1": array(3, 8)}, given=path)
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    assert [w.nbytes for w in imported.weights] == [8 * 4096 * 4, 4096 * 4]


def test_large_constant_nodes_are_weights_too(tmp_path):
    value = array(64, 64)
    proto = model(
        [
            helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(value)),
            helper.make_node("MatMul", ["x", "w"], ["y"]),
        ],
        {"x": (FLOAT, [2, 64])},
        {"y": (FLOAT, [2, 64])},
    )
    onnx.save(proto, tmp_path / "m.onnx")
    imported = check(proto, {"x": array(2, 64)}, given=tmp_path / "m.onnx")
    np.testing.assert_array_equal(imported.weights[0], value)


def test_a_symbol_bound_in_one_input_is_bound_in_all():
    proto = model(
        [helper.make_node("Add", ["a", "b"], ["y"])],
        {"a": (FLOAT, ["n", 4]), "b": (FLOAT, ["n", 4])},
        {"y": (FLOAT, ["n", 4])},
    )
    assert import_model(proto, {"a": (5, 4)}).inputs[1].shape == (5, 4)


def test_shape_subgraphs_fold():
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "axis"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["r"]),
        helper.make_node("ConstantOfShape", ["target"], ["ones"]),
        helper.make_node("Add", ["r", "ones"], ["y"]),
    ]
    constants = {"zero": np.array(0), "axis": np.array([0]), "rest": np.array([2, 3])}
    proto = model(nodes, {"x": (FLOAT, ["b", 6])}, {"y": (FLOAT, None)}, constants)
    imported = check(proto, {"x": array(4, 6)}, {"x": (4, 6)})
    assert imported.outputs[0].shape == (4, 2, 3)


def test_weight_only_subgraphs_are_folded_and_twins_stored_once():
    w = array(300, 300)
    nodes = [
        helper.make_node("Transpose", ["w"], ["wt"]),
        helper.make_node("Mul", ["wt", "two"], ["wt2"]),
        helper.make_node("MatMul", ["x", "wt2"], ["h"]),
        helper.make_node("MatMul", ["h", "u"], ["i"]),
        helper.make_node("MatMul", ["i", "u_again"], ["y"]),
    ]
    weights = {"w": w, "two": np.array(2, "f4"), "u": w * 1, "u_again": w * 1}
    proto = model(nodes, {"x": (FLOAT, [1, 300])}, {"y": (FLOAT, None)}, weights)
    imported = check(proto, {"x": array(1, 300)}, rtol=1e-3)
    assert sorted(np.abs(a).max() for a in imported.weights) == [
        pytest.approx(np.abs(w).max()),
        pytest.approx(np.abs(2 * w).max()),
    ]
    assert "permute_dims" not in str(imported.mod)


def test_an_expand_of_a_weight_is_not_folded():
    nodes = [
        helper.make_node("Expand", ["w", "s"], ["e"]),
        helper.make_node("Mul", ["x", "e"], ["y"]),
    ]
    weights = {"w": array(1, 1024), "s": np.array([1024, 1024])}
    proto = model(nodes, {"x": (FLOAT, [1024, 1024])}, {"y": (FLOAT, None)}, weights)
    assert sum(w.nbytes for w in import_model(proto).weights) == 4096


def test_batch_normalization_becomes_multiply_and_add():
    names = ["scale", "shift", "mean", "variance"]
    proto = model(
        [helper.make_node("BatchNormalization", ["x", *names], ["y"])],
        {"x": (FLOAT, [1, 4, 5, 5])},
        {"y": (FLOAT, None)},
        {name: np.abs(array(4)) + 0.1 for name in names},
    )
    imported = check(proto, {"x": array(1, 4, 5, 5)})
    assert "batch_norm" not in str(imported.mod)
    assert [w.shape for w in imported.weights] == [(4, 1, 1), (4, 1, 1)]


def test_model_functions_are_inlined():
    function = helper.make_function(
        "local",
        "Twice",
        ["a"],
        ["b"],
        [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 18)],
    )
    proto = model(
        [helper.make_node("Twice", ["x"], ["y"], domain="local")],
        {"x": (FLOAT, [3])},
        {"y": (FLOAT, [3])},
        opsets=[helper.make_opsetid("local", 1)],
        functions=[function],
    )
    check(proto, {"x": array(3)})


def test_if_with_a_computed_condition_imports():
    then = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["t"])],
        "then",
        [],
        [helper.make_tensor_value_info("t", FLOAT, [3])],
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["e"])],
        "else",
        [],
        [helper.make_tensor_value_info("e", FLOAT, [3])],
    )
    proto = model(
        [helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)],
        {"c": (TensorProto.BOOL, []), "x": (FLOAT, [3])},
        {"y": (FLOAT, [3])},
        {"w": array(3)},
    )
    for condition in (True, False):
        check(proto, {"c": np.array(condition), "x": array(3)})


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
)
def test_inputs_of_every_type(dtype):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    proto = model(
        [helper.make_node("Where", ["c", "x", "z"], ["y"])],
        {"c": (TensorProto.BOOL, [4]), "x": (kind, [4])},
        {"y": (kind, [4])},
        {"z": np.arange(4).astype(dtype)},
    )
    feeds = {"c": np.array([1, 0, 1, 0], bool), "x": np.array([1, 1, 0, 1]).astype(dtype)}
    imported = import_model(proto)
    (got,) = run_stock(imported, feeds)
    np.testing.assert_array_equal(got, np.where(feeds["c"], feeds["x"], np.arange(4).astype(dtype)))
    assert imported.inputs[1].dtype == str(np.dtype(dtype))


def test_index_bounds_reach_inputs_through_layout_operators():
    nodes = [
        helper.make_node("Unsqueeze", ["ids", "axis"], ["a"]),
        helper.make_node("Transpose", ["a"], ["b"]),
        helper.make_node("Cast", ["b"], ["c"], to=TensorProto.INT32),
        helper.make_node("Gather", ["table", "c"], ["y"]),
    ]
    proto = indexed(nodes, [2, 3], {"axis": np.array([0]), "table": array(10, 4)})
    assert import_model(proto).index_bounds == {"ids": (-10, 9)}


def test_index_bounds_are_the_tightest_of_several_uses_and_follow_offsets():
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["a"]),
        helper.make_node("Add", ["ids", "two"], ["shifted"]),
        helper.make_node("Gather", ["small", "shifted"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    weights = {"table": array(10, 4), "small": array(6, 4), "two": np.array(2)}
    assert import_model(indexed(nodes, [3], weights)).index_bounds == {"ids": (-8, 3)}


def test_a_computed_index_is_clamped():
    nodes = [
        helper.make_node("Mul", ["ids", "ids"], ["square"]),
        helper.make_node("Gather", ["table", "square"], ["y"]),
    ]
    weights = {"table": array(10, 4)}
    imported = import_model(indexed(nodes, [2], weights))
    assert imported.index_bounds == {}
    (got,) = run_stock(imported, {"ids": np.array([100000, 2])})
    np.testing.assert_array_equal(got, weights["table"][[9, 4]])
