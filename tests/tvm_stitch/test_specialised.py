"""Inputs bound to values, models of open shapes, and ONNX's own interface to a runtime."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.backend.test.runner import Runner

import tvm_stitch
from tvm_stitch import onnx_backend
from tvm_stitch.cli import main
from tvm_stitch.errors import StitchError
from tvm_stitch.open_shapes import specialised
from tvm_stitch.open_shapes.specialised import Specialised

# A family each: what is written in other operators, unrolled, bound by value, narrow.
NODES = [
    "add",
    "affine_grid_2d",
    "attention_4d_gqa_with_past_and_present",
    "attention_3d_causal",
    "basic_conv_with_padding",
    "bitcast_float32_to_int32",
    "cast_FLOAT_to_FLOAT8E4M3FN",
    "cast_INT4_to_FLOAT",
    "causal_conv_with_state_with_past_state",
    "center_crop_pad_crop",
    "col2im",
    "compress_0",
    "cumprod_1d",
    "det_nd",
    "dft",
    "dequantizelinear_blocked",
    "expand_dim_changed",
    "gru_seq_length",
    "hannwindow",
    "linear_attention_delta",
    "lstm_with_peepholes",
    "maxpool_with_argmax_2d_precomputed_pads",
    "melweightmatrix",
    "mod_float_edge_cases_fmod_0_float32",
    "qlinearconv",
    "quantizelinear_e4m3fn",
    "range_float_type_positive_delta",
    "reduce_max_empty_set",
    "reshape_negative_dim",
    "resize_downsample_sizes_cubic_antialias",
    "reversesequence_batch",
    "rnn_seq_length",
    "scan9_scalar",
    "scan9_sum",
    "slice",
    "spacetodepth_crd_mode_example",
    "stft",
    "tensorscatter_circular",
    "tile",
    "top_k",
]


@pytest.fixture(scope="module")
def nodes():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflows that the tests are about
        return Runner(onnx_backend.StitchBackend, __name__).test_cases["OnnxBackendNodeModelTest"]


@pytest.mark.long(every=10)
@pytest.mark.parametrize("name", NODES)
def test_a_node_does_what_onnx_says(nodes, name):
    nodes(f"test_{name}_cpu").debug()


def sliced() -> onnx.ModelProto:
    """Return x[:, starts:ends] of any width."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Slice", ["x", "starts", "ends", "axes"], ["y"])],
        "sliced",
        [
            info("x", TensorProto.FLOAT, [2, "width"]),
            *(info(name, TensorProto.INT64, [1]) for name in ("starts", "ends", "axes")),
        ],
        [info("y", TensorProto.FLOAT, [2, None])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def bound(starts: int, ends: int) -> dict[str, np.ndarray]:
    return {"starts": np.array([starts]), "ends": np.array([ends]), "axes": np.array([1])}


def test_a_bound_input_is_none_of_the_models():
    model = tvm_stitch.compile(sliced(), shapes={"x": (2, 8)}, values=bound(1, 5))
    assert [spec.name for spec in model.meta.inputs] == ["x"]
    x = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)
    np.testing.assert_array_equal(model.run({"x": x})["y"], x[:, 1:5])


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"z": np.array([1])}, "the model has no such input"),
        ({"starts": np.array([0.5])}, "it is of float64"),
        ({"starts": np.array(1)}, "it has 0 axes, not 1"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(values, told):
    with pytest.raises(StitchError, match=told):
        tvm_stitch.compile(sliced(), shapes={"x": (2, 8)}, values=values)


def test_a_shape_is_compiled_once():
    model, x = Specialised(sliced()), np.arange(24, dtype=np.float32).reshape(2, 12)
    for width, ends in ((8, 4), (12, 4), (8, 4), (8, 6)):
        given = np.ascontiguousarray(x[:, :width])
        found = model.run({"x": given, **bound(1, ends)})["y"]
        np.testing.assert_array_equal(found, given[:, 1:ends])
    assert model.shapes == 3


@pytest.mark.parametrize(("limit", "left"), [(0, 1), (1 << 30, 3)])
def test_shapes_that_were_used_last_stay_as_far_as_they_fit(limit, left):
    model, x = Specialised(sliced(), keep_bytes=limit), np.ones((2, 9), np.float32)
    for width in (5, 6, 7, 6):
        model.run({"x": np.ascontiguousarray(x[:, :width]), **bound(0, 3)})
    assert model.shapes == left


def test_the_command_compiles_for_the_inputs(tmp_path, capsys):
    path, cache = tmp_path / "model.onnx", tmp_path / "cache"
    onnx.save(sliced(), path)
    given = []
    feeds = {"x": np.arange(12, dtype=np.float32).reshape(2, 6), **bound(1, 5)}
    for name, array in feeds.items():
        np.save(tmp_path / f"{name}.npy", array)
        given.append(f"--input={name}={tmp_path / name}.npy")
    assert main(["run", str(path), *given, "--specialize", "--cache", str(cache)]) == 0
    assert "y: float32[2, 4]" in capsys.readouterr().out
    assert len(list(cache.iterdir())) == 1
    assert main(["run", str(path), *given, "--cache", str(cache)]) == 1


def test_a_second_process_compiles_nothing(tmp_path, monkeypatch, caplog):
    path, x = tmp_path / "model.onnx", np.arange(12, dtype=np.float32).reshape(2, 6)
    onnx.save(sliced(), path)
    feed = {"x": x, **bound(1, 5)}
    first = Specialised(path, cache=tmp_path / "cache").run(feed)["y"]
    (file,) = (tmp_path / "cache").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(specialised, "compile", None)
        again = Specialised(path, cache=tmp_path / "cache").run(feed)["y"]
    np.testing.assert_array_equal(first, again)
    file.write_bytes(file.read_bytes()[:1000])  # as a full disk may leave one
    anew = Specialised(path, cache=tmp_path / "cache").run(feed)["y"]
    np.testing.assert_array_equal(first, anew)
    assert file.stat().st_size > 1000
    assert [r.getMessage() for r in caplog.records if r.levelname == "WARNING"] == [
        f"cache {file}: not a model that tvm-stitch exported; it is compiled anew"
    ]
    onnx.save(onnx.version_converter.convert_version(sliced(), 17), path)
    Specialised(path, cache=tmp_path / "cache").run(feed)
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_named_extents_compile_at_first_sight(tmp_path):
    model = tvm_stitch.compile(sliced(), shapes={"x": (2, "width")}, cache=tmp_path / "cache")
    for width in (4, 7, 4):
        x = np.random.default_rng(width).standard_normal((2, width)).astype(np.float32)
        np.testing.assert_array_equal(model.run({"x": x, **bound(0, 3)})["y"], x[:, :3])
    assert model.shapes == len(list((tmp_path / "cache").iterdir())) == 2
    with pytest.raises(StitchError, match=r"\[3, 4\] is not \[2, width\]"):
        model.run({"x": np.ones((3, 4), np.float32), **bound(0, 3)})


def test_equal_names_are_equal_extents():
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["c"])],
        "sum",
        [info(name, TensorProto.FLOAT, [None]) for name in "ab"],
        [info("c", TensorProto.FLOAT, [None])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    model = tvm_stitch.compile(proto, shapes={"a": ("n",), "b": ("n",)})
    with pytest.raises(StitchError, match=r"\[4\] is not \[n\], n = 3"):
        model.run({"a": np.ones(3, np.float32), "b": np.ones(4, np.float32)})


def test_a_cache_of_numbers_alone_is_refused(tmp_path):
    with pytest.raises(StitchError, match="every extent has a number"):
        tvm_stitch.compile(sliced(), shapes={"x": (2, 8)}, cache=tmp_path)


def test_a_cache_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "cache").write_text("")
    with pytest.raises(StitchError, match="it cannot be made"):
        Specialised(sliced(), cache=tmp_path / "cache")


@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_session_is_used_as_onnx_runtimes(tmp_path, as_bytes):
    """Of the same model both say the same of their inputs, and compute the same."""
    path = tmp_path / "model.onnx"
    onnx.save(sliced(), path)
    given = path.read_bytes() if as_bytes else str(path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    ours = tvm_stitch.InferenceSession(given, options, providers=["CPUExecutionProvider"])
    theirs = onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
    for method in ("get_inputs", "get_outputs"):
        pairs = zip(getattr(ours, method)(), getattr(theirs, method)(), strict=True)
        for one, other in pairs:
            assert (one.name, one.shape, one.type) == (other.name, other.shape, other.type)
    assert ours.get_providers() == theirs.get_providers()
    feed = {"x": np.arange(12, dtype=np.float32).reshape(2, 6), **bound(1, 4)}
    for names in (None, ["y"]):
        for one, other in zip(ours.run(names, feed), theirs.run(names, feed), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda: tvm_stitch.InferenceSession(b"no model"), "not an ONNX model"),
        (lambda: tvm_stitch.InferenceSession("nowhere.onnx"), "cannot be read"),
        (
            lambda: tvm_stitch.InferenceSession(
                sliced().SerializeToString(), providers=["CoreMLExecutionProvider"]
            ),
            "none of them is ours",
        ),
        (
            lambda: tvm_stitch.InferenceSession(sliced().SerializeToString()).run(["z"], {}),
            "the model has no such output",
        ),
    ],
)
def test_a_session_refuses_in_one_line(made, told):
    with pytest.raises(StitchError, match=told):
        made()


def test_a_backend_of_onnx_runs_one_node():
    node = helper.make_node("Add", ["a", "b"], ["c"])
    a, b = np.float32([1, 2]), np.float32([3, 4])
    (made,) = onnx_backend.run_node(node, [a, b])
    np.testing.assert_array_equal(made, a + b)
    assert onnx_backend.supports_device("CPU") and not onnx_backend.supports_device("TPU")
