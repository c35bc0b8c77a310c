"""The op table that Inductor and XLA run through: both columns against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from tvm_stitch.profiling.onnx_ops.graph import read
from tvm_stitch.profiling.onnx_ops.table import jax_column, torch_column
from tvm_stitch.profiling.peer import CannotRun

OPSET = 18
rng = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def scalar(value: float) -> np.ndarray:
    return np.array(value, np.float32)


IMAGE, ROWS, POSITIVE = floats(2, 4, 9, 8), floats(3, 5, 8), np.abs(floats(3, 5)) + 0.1
MASK = ROWS > 0
UNARY = """
    Abs Ceil Elu Erf Exp Floor HardSigmoid HardSwish Identity LeakyRelu LogSoftmax Mish Neg Relu
    Round Sigmoid Sign Sin Cos Softmax Softplus Softsign Tanh Transpose IsNaN ReduceMax ReduceMean
    ReduceSum Flatten ArgMax ArgMin LpNormalization
"""
BINARY = "Add Sub Mul Div Max Min Sum Greater Less Equal GreaterOrEqual PRelu"
# id: op, inputs, weights (operands after the inputs, None for absent), attributes.
CASES: dict[str, tuple[str, list, list, dict]] = {
    **{op.lower(): (op, [ROWS], [], {}) for op in UNARY.split()},
    **{op.lower(): (op, [POSITIVE], [], {}) for op in ("Log", "Sqrt", "Reciprocal", "ReduceProd")},
    **{op.lower(): (op, [ROWS, floats(5, 8)], [], {}) for op in BINARY.split()},
    "pow": ("Pow", [ROWS], [scalar(2)], {}),
    "pow-tensor": ("Pow", [POSITIVE], [floats(5)], {}),
    "divide-integers": ("Div", [np.array([7, -7, 9])], [np.array([2, 2, -4])], {}),
    "mod": ("Mod", [np.array([7, -7, 9])], [np.array([2, 2, -4])], {}),
    "clip": ("Clip", [ROWS], [scalar(-0.5), scalar(0.5)], {}),
    "clip-low-only": ("Clip", [ROWS], [scalar(-0.5)], {}),
    "max-with-scalar": ("Max", [ROWS], [scalar(0.1)], {}),
    "scalar-first": ("Sub", [], [scalar(1), ROWS], {}),
    "not": ("Not", [MASK], [], {}),
    "and": ("And", [MASK, MASK[:1]], [], {}),
    "where": ("Where", [MASK, ROWS], [scalar(-np.inf)], {}),
    "cast": ("Cast", [ROWS], [], {"to": onnx.TensorProto.INT32}),
    "reduce-axes": ("ReduceMean", [ROWS], [ints(0, -1)], {"keepdims": 0}),
    "reduce-l1": ("ReduceL1", [ROWS], [ints(1)], {}),
    "reduce-l2": ("ReduceL2", [ROWS], [ints(-1)], {}),
    "reduce-min": ("ReduceMin", [ROWS], [ints(1)], {"keepdims": 0}),
    "reduce-logsumexp": ("ReduceLogSumExp", [ROWS], [ints(2)], {}),
    "reduce-sum-square": ("ReduceSumSquare", [ROWS], [ints(0)], {}),
    "reduce-noop": ("ReduceSum", [ROWS], [], {"noop_with_empty_axes": 1}),
    "cumsum": ("CumSum", [ROWS], [np.array(1)], {}),
    "softmax-middle": ("Softmax", [ROWS], [], {"axis": 1}),
    "layer-norm": ("LayerNormalization", [ROWS], [floats(8), floats(8)], {"epsilon": 1e-3}),
    "layer-norm-two-axes": ("LayerNormalization", [ROWS], [floats(5, 8)], {"axis": 1}),
    "batch-norm": (
        "BatchNormalization",
        [IMAGE],
        [floats(4), floats(4), floats(4), np.abs(floats(4)) + 0.5],
        {},
    ),
    "instance-norm": ("InstanceNormalization", [IMAGE], [floats(4), floats(4)], {}),
    "reshape": ("Reshape", [ROWS], [ints(0, -1, 4)], {}),
    "squeeze": ("Squeeze", [ROWS[:, :1]], [ints(1)], {}),
    "squeeze-all": ("Squeeze", [ROWS[:1, :1]], [], {}),
    "unsqueeze": ("Unsqueeze", [ROWS], [ints(0, -1)], {}),
    "expand": ("Expand", [ROWS[:, :1]], [ints(2, 1, 5, 8)], {}),
    "tile": ("Tile", [ROWS], [ints(1, 2, 3)], {}),
    "concat": ("Concat", [ROWS, ROWS[:, :2]], [], {"axis": 1}),
    "permute": ("Transpose", [ROWS], [], {"perm": [1, 0, 2]}),
    "slice": ("Slice", [ROWS], [ints(1, -6), ints(9, -1), ints(1, 2), ints(2, 2)], {}),
    "slice-backwards": ("Slice", [ROWS], [ints(-1), ints(-99), ints(2), ints(-2)], {}),
    "pad": ("Pad", [ROWS], [ints(0, 1, 2, 0, 0, 1), scalar(3)], {}),
    "gather": ("Gather", [ROWS], [ints(2, -1, 0)], {"axis": 1}),
    "gather-scalar": ("Gather", [ROWS], [np.array(1)], {"axis": 1}),
    "gather-embedding": ("Gather", [], [floats(10, 4), np.array([[1, 9], [0, 3]])], {}),
    "gather-elements": ("GatherElements", [ROWS], [ints(0, 1, 2).reshape(3, 1, 1)], {"axis": 2}),
    "trilu": ("Trilu", [floats(4, 4)], [np.array(1)], {"upper": 0}),
    "matmul": ("MatMul", [ROWS], [floats(8, 6)], {}),
    "gemm": ("Gemm", [floats(3, 8)], [floats(6, 8), floats(6)], {"transB": 1, "alpha": 0.5}),
    "einsum": ("Einsum", [ROWS, ROWS], [], {"equation": "bij,bkj->bik"}),
    "conv": (
        "Conv",
        [IMAGE],
        [floats(6, 4, 3, 3), floats(6)],
        {"pads": [1] * 4, "strides": [2, 1]},
    ),
    "conv-depthwise": ("Conv", [IMAGE], [floats(4, 1, 3, 3)], {"group": 4, "dilations": [2, 2]}),
    "conv-same": ("Conv", [IMAGE], [floats(6, 4, 2, 2)], {"auto_pad": "SAME_UPPER"}),
    "max-pool": (
        "MaxPool",
        [IMAGE],
        [],
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    ),
    "max-pool-ceil": (
        "MaxPool",
        [IMAGE],
        [],
        {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1},
    ),
    "average-pool": ("AveragePool", [IMAGE], [], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "global-average-pool": ("GlobalAveragePool", [IMAGE], [], {}),
    "global-max-pool": ("GlobalMaxPool", [IMAGE], [], {}),
}
MULTIPLE = {
    "split": ("Split", [ROWS], [ints(3, 5)], {"axis": 2}, 2),
    "split-evenly": ("Split", [ROWS], [], {"axis": 2, "num_outputs": 4}, 4),
    "top-k": ("TopK", [ROWS], [ints(3)], {}, 2),
}
ALL = {**{name: (*case, 1) for name, case in CASES.items()}, **MULTIPLE}


def column(name: str) -> tuple[Any, Callable[[np.ndarray], Any]]:
    """Return the column and how it takes an array."""
    if name == "torch":
        torch = pytest.importorskip("torch")
        return torch_column(), lambda value: torch.from_numpy(np.array(value))
    jax = pytest.importorskip("jax", reason="jax needs Python 3.11")
    jax.config.update("jax_enable_x64", True)
    return jax_column(), jax.numpy.asarray


def model_of(case: tuple[str, list, list, dict, int], path: Path) -> tuple[Path, list[np.ndarray]]:
    """Write a model of one node and return its path and inputs."""
    op, inputs, weights, attributes, outputs = case
    values = [(f"x{i}", value) for i, value in enumerate(inputs)]
    stored = [(f"w{i}", value) for i, value in enumerate(weights)]
    names = [name for name, _ in [*values, *stored]]
    results = [f"y{i}" for i in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op, names, results, **attributes)],
        op,
        [_info(name, value) for name, value in values],
        [helper.make_empty_tensor_value_info(name) for name in results],
        [numpy_helper.from_array(value, name) for name, value in stored],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    onnx.save(model, path / "op.onnx")
    return path / "op.onnx", list(inputs)


def _info(name: str, value: np.ndarray) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(name, kind, value.shape)


def reference(path: Path, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(path)
    return session.run(None, {f"x{i}": value for i, value in enumerate(inputs)})


@pytest.mark.long(every=3)
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_column_agrees_with_onnx_runtime(framework, name, tmp_path):
    rows, take = column(framework)
    path, inputs = model_of(ALL[name], tmp_path)
    graph = read(path, rows)
    weights = {key: take(value) for key, value in graph.weights.items()}
    got = graph.run(rows, weights, [take(value) for value in inputs])
    for value, expected in zip(got, reference(path, inputs), strict=True):
        assert tuple(value.shape) == expected.shape
        assert np.asarray(value).dtype == expected.dtype
        np.testing.assert_allclose(np.asarray(value), expected, rtol=1e-4, atol=2e-6)


def test_the_columns_have_the_same_rows():
    pytest.importorskip("torch")
    pytest.importorskip("jax", reason="jax needs Python 3.11")
    assert set(torch_column().rows) == set(jax_column().rows)
    assert len(torch_column().rows) >= 60


def test_an_op_without_a_row_is_named(tmp_path):
    path, _ = model_of(("Det", [floats(3, 3)], [], {}, 1), tmp_path)
    with pytest.raises(CannotRun, match="no row for Det"):
        read(path, column("torch")[0])


def test_a_shape_computed_at_run_time_is_refused(tmp_path):
    path, _ = model_of(("Reshape", [ROWS, ints(-1)], [], {}, 1), tmp_path)
    with pytest.raises(CannotRun, match="x1 shapes the graph"):
        read(path, column("torch")[0])
