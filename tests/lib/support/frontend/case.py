"""One-operator models on tiny tensors: imported, built by stock TVM, against ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import tvm
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tvm import relax

from relay_passes.transform import NamedLegalize, RollLoops
from support.frontend import fallback_list
from support.toy_backend import SerialLoops
from tir_schedules.backend import registered
from tvm_stitch.frontend import import_model

BF16 = ml_dtypes.bfloat16
# Python 3.10 has no later one than 1.23: it knows no empty axes without an operation nor scales
# that broadcast, and its erf of NaN is 1.
OLD_RUNTIME = tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 24)


@dataclass(frozen=True)
class Case:
    """One node: `inputs` are fed, `constants` are initializers, in the node's order by name."""

    id: str
    op: str
    inputs: dict[str, np.ndarray]
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    attrs: dict = field(default_factory=dict)
    opset: int = 18
    order: tuple[str, ...] | None = None
    outputs: int = 1
    domain: str = ""
    reference: bool = False  # ONNX Runtime lacks it: use ONNX's reference evaluator

    def model(self) -> onnx.ModelProto:
        names = self.order or (*self.inputs, *self.constants)
        outputs = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, outputs, domain=self.domain, **self.attrs)
        graph = helper.make_graph(
            [node],
            self.id,
            [info(name, array) for name, array in self.inputs.items()],
            [onnx.ValueInfoProto(name=name) for name in outputs],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", self.opset)]
        if self.domain:
            opsets.append(helper.make_opsetid(self.domain, 1))
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return onnx.shape_inference.infer_shapes(model)


def info(name, array):
    elem = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, elem, array.shape)


def run_stock(imported, inputs):
    """Build with stock TVM, loops written out, and return the outputs in order."""
    with registered("llvm", SerialLoops()), tvm.target.Target("llvm"):
        mod = RollLoops()(NamedLegalize()(imported.mod))
    vm = relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu())
    arrays = [np.asarray(inputs[spec.name], order="C") for spec in imported.inputs]
    result = vm["main"](*(tvm.runtime.tensor(a) for a in (*arrays, *imported.weights)))
    results = [result] if len(imported.outputs) == 1 else list(result)
    return [tensor.numpy() for tensor in results]


def expected(case, model):
    if case.reference:
        return ReferenceEvaluator(model).run(None, case.inputs)
    # Unoptimised: ONNX Runtime's fusions are not the reference.
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, case.inputs)


def random(*shape, dtype="f4", low=-2.0, high=2.0, seed=0):
    rng = np.random.default_rng([seed, *shape])
    values = rng.uniform(low, high, shape)
    if np.dtype(dtype).kind in "iu":
        values = rng.integers(int(low), int(high) + 1, shape)
    return np.asarray(values).astype(dtype)


def ints(*values, dtype=np.int64):
    return np.array(values[0] if len(values) == 1 else values, dtype)


X234 = {"x": random(2, 3, 4)}
IMAGE = {"x": random(1, 3, 7, 8)}
SPECIAL = {"x": np.array([0, -0.0, 1.5, -1.5, 2.5, -2.5, 0.5, -0.5, np.inf, -np.inf, np.nan], "f4")}


def check_case(case: Case) -> None:
    """Import, build and run a case; compare names, dtypes, shapes and values."""
    model = case.model()
    want = expected(case, model)
    imported = import_model(model)
    assert case.op in fallback_list.ONNX or not fallback_list.declined(imported.mod)
    got = run_stock(imported, case.inputs)
    assert [spec.name for spec in imported.outputs] == [f"y{i}" for i in range(case.outputs)]
    for spec, one, other in zip(imported.outputs, got, map(np.asarray, want), strict=True):
        assert (str(one.dtype), one.shape) == (str(other.dtype), other.shape)
        assert (spec.dtype, spec.shape) == (str(other.dtype), other.shape)
        if other.dtype.kind in "biu":
            np.testing.assert_array_equal(one, other)
        else:
            rtol = {2: 4e-3, 4: 2e-5, 8: 1e-9}[other.dtype.itemsize]
            rtol = 1e-2 if other.dtype == BF16 else rtol
            np.testing.assert_allclose(
                one.astype("f8"), other.astype("f8"), rtol=rtol, atol=rtol / 4
            )


RNG = np.random.default_rng(0)
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def array(*shape, dtype="f4"):
    return RNG.standard_normal(shape).astype(dtype)


def model(nodes, inputs, outputs, weights=None, opset=18, **kwargs):
    """Build a model; inputs and outputs are {name: (element type, shape)}."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, *spec) for name, spec in inputs.items()],
        [helper.make_tensor_value_info(name, *spec) for name, spec in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), *kwargs.pop("opsets", [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, **kwargs)


def linear(batch="batch"):
    return model(
        [
            helper.make_node("MatMul", ["input.1", "layer/w"], ["h"]),
            helper.make_node("Add", ["h", "b"], ["out:0"]),
        ],
        {"input.1": (FLOAT, [batch, 8])},
        {"out:0": (FLOAT, None)},
        {"layer/w": array(8, 16), "b": array(16)},
    )


def indexed(nodes, ids_shape, weights):
    return model(nodes, {"ids": (INT64, ids_shape)}, {"y": (FLOAT, None)}, weights)
