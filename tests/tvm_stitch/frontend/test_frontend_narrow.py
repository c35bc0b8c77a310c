"""Types of 2, 4 and 8 bits: wide within a model, themselves at its edge."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvm_stitch
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.narrow import FLOATS, INTEGERS

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-9, -1e-9, 1e6, -1e6]


def cast(to: str, source: int = TensorProto.FLOAT, size: int = 0, **attrs) -> onnx.ModelProto:
    """Return a model that casts a list of numbers."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(getattr(ml_dtypes, to)))
    node = helper.make_node("Cast", ["x"], ["y"], to=kind, **attrs)
    x = helper.make_tensor_value_info("x", source, [size])
    y = helper.make_tensor_value_info("y", kind, [size])
    graph = helper.make_graph([node], "cast", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)


@pytest.mark.long(every=9)
@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("to", FLOATS)
def test_a_float_is_rounded_as_ml_dtypes_does(to, saturate):
    dtype, rng = np.dtype(getattr(ml_dtypes, to)), np.random.default_rng(1)
    spread = rng.standard_normal(4000) * 2.0 ** rng.integers(-20, 12, 4000)
    numbers = np.arange(1 << 8, dtype=np.uint8)[: 1 << ml_dtypes.finfo(dtype).bits]
    own = np.sort(numbers.view(dtype).astype(np.float32))
    own = own[np.isfinite(own)]
    ties = (own[1:].astype(np.float64) + own[:-1]) / 2
    x = np.concatenate([SPECIAL, spread, own, ties]).astype(np.float32)
    given = x if ml_dtypes.finfo(dtype).bits == 8 else np.nan_to_num(x, nan=0.0)
    expected = given.astype(dtype)
    if saturate and ml_dtypes.finfo(dtype).bits == 8:
        expected = onnx.numpy_helper.saturate_cast(given, dtype)
    model = tvm_stitch.compile(cast(to, size=len(x), saturate=saturate))
    made = model.run({"x": given})["y"]
    assert made.dtype == dtype
    np.testing.assert_array_equal(made.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize("to", INTEGERS)
def test_an_integer_keeps_its_low_bits(to):
    x = np.arange(-40, 40).astype(np.float32)
    made = tvm_stitch.compile(cast(to, size=len(x))).run({"x": x})["y"]
    np.testing.assert_array_equal(made.astype(int), x.astype(getattr(ml_dtypes, to)).astype(int))


def weights_of_four_bits() -> tuple[onnx.ModelProto, np.ndarray]:
    """Return x @ w of 4-bit weights with a scale for each 8 rows, and the weights."""
    rng = np.random.default_rng(2)
    w = rng.integers(-8, 8, (32, 16)).astype(ml_dtypes.int4)
    scale = rng.uniform(0.1, 1, (4, 16)).astype(np.float32)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=8),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "four_bits",
        [info("x", TensorProto.FLOAT, [3, 32])],
        [info("y", TensorProto.FLOAT, [3, 16])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(scale, "s")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return model, w.astype(np.float32) * np.repeat(scale, 8, axis=0)


def test_weights_of_four_bits_are_scaled_by_blocks():
    model, weights = weights_of_four_bits()
    x = np.random.default_rng(3).standard_normal((3, 32)).astype(np.float32)
    made = tvm_stitch.compile(model).run({"x": x})["y"]
    np.testing.assert_allclose(made, x.astype(np.float64) @ weights, rtol=1e-5, atol=1e-4)


def test_a_file_keeps_the_types_of_its_edge(tmp_path):
    path, x = tmp_path / "model.so", np.arange(8, dtype=np.float32)
    tvm_stitch.compile(cast("float8_e5m2", size=8)).export(path)
    made = tvm_stitch.load(path).run({"x": x})["y"]
    np.testing.assert_array_equal(made, x.astype(ml_dtypes.float8_e5m2))


def test_an_input_of_another_type_is_refused():
    kind = TensorProto.FLOAT8E4M3FN
    model = tvm_stitch.compile(cast("int4", source=kind, size=4))
    with pytest.raises(StitchError, match="float32\\[4\\] is not the model's"):
        model.run({"x": np.ones(4, np.float32)})
