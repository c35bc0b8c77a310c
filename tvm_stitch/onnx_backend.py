"""ONNX's own interface to a runtime: `onnx.backend.base.Backend`, for its test suite and others.

from onnx.backend.test import BackendTest
from tvm_stitch.onnx_backend import StitchBackend
BackendTest(StitchBackend, __name__)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.base import Backend, BackendRep, DeviceType, namedtupledict

from tvm_stitch.errors import StitchError
from tvm_stitch.open_shapes.specialised import Specialised

_TARGETS = {DeviceType.CPU: "x86", DeviceType.CUDA: "cuda"}


class Prepared(BackendRep):
    """A model that is compiled for the shapes of the inputs it is run on."""

    def __init__(self, model: onnx.ModelProto, target: str) -> None:
        self._model = Specialised(model, target=target)

    def run(self, inputs: Any, **_keywords: Any) -> tuple[np.ndarray, ...]:
        """Return the outputs, by position and by name, on arrays by position or by name.

        Raises: StitchError as `tvm_stitch.compile` and `Model.run`.
        """
        names = self._model.inputs
        if not isinstance(inputs, dict):
            if isinstance(inputs, np.ndarray):
                inputs = [inputs]
            if len(inputs) > len(names):
                given = f"{len(inputs)} inputs"
                raise StitchError(given, f"the model has {len(names)}", "give one for each")
            inputs = dict(zip(names, inputs, strict=False))
        found = self._model.run({name: _array(value, name) for name, value in inputs.items()})
        outputs = self._model.outputs
        return namedtupledict("Outputs", outputs)(*(found[name] for name in outputs))


class StitchBackend(Backend):
    """tvm-stitch as ONNX's test suite and scoreboards call it."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **_options: Any) -> bool:
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> Prepared:
        return Prepared(model, _target(device))

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **options: Any,
    ) -> tuple[np.ndarray, ...]:
        """Run one operator of the newest operator set."""
        names = [name for name in node.input if name]
        arrays = dict(zip(names, inputs, strict=True))
        given = [_value(name, array) for name, array in arrays.items()]
        made = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", given, made)
        opset = onnx.helper.make_opsetid("", onnx.defs.onnx_opset_version())
        return cls.prepare(onnx.helper.make_model(graph, opset_imports=[opset]), device).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        from tvm_stitch.runtime.gpu_driver import own_arch

        kind = device.partition(":")[0]
        return kind == "CPU" or (kind == "CUDA" and own_arch() is not None)


prepare = StitchBackend.prepare
run_model = StitchBackend.run_model
run_node = StitchBackend.run_node
supports_device = StitchBackend.supports_device


def _target(device: str) -> str:
    kind = device.partition(":")[0]
    if kind not in ("CPU", "CUDA"):
        raise StitchError(f"device {device!r}", "not a device of ONNX", "give CPU or CUDA")
    return _TARGETS[getattr(DeviceType, kind)]


def _array(value: Any, name: str) -> np.ndarray:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if value is None or isinstance(value, (list, tuple, dict)):
        raise StitchError(f"input {name!r}", "it is not a tensor", "pass sequences as tensors")
    return np.asarray(value)


def _value(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, kind, array.shape)
