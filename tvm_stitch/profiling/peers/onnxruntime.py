"""ONNX Runtime's CPU provider, inputs and outputs bound to its own memory."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidGraph,
    NotImplemented,
)

from ..peer import CannotRun, Job


def prepare(job: Job, _setting: str) -> OrtSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = job.threads, 1
    options.log_severity_level = 4
    providers = ["CPUExecutionProvider"]
    try:
        return OrtSession(ort.InferenceSession(job.model, options, providers=providers))
    except (Fail, InvalidArgument, InvalidGraph, NotImplemented) as error:
        raise CannotRun(" ".join(str(error).split())) from error


class OrtSession:
    """Outputs are allocated in the first run of a binding and reused by the next."""

    def __init__(self, session: ort.InferenceSession) -> None:
        self._session = session
        self.facts = {"version": ort.__version__}

    def bind(self, inputs: dict[str, np.ndarray]) -> Callable[[], object]:
        session, binding = self._session, self._session.io_binding()
        # The values must outlive the binding, which does not keep them.
        values = {name: _value(array) for name, array in inputs.items()}
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        names = [output.name for output in session.get_outputs()]
        for name in names:
            binding.bind_output(name, "cpu")
        session.run_with_iobinding(binding)
        for name, value in zip(names, binding.get_outputs(), strict=True):
            binding.bind_ortvalue_output(name, value)

        def call() -> object:
            session.run_with_iobinding(binding)
            return binding, values

        return call

    def fetch(self, result: tuple[ort.IOBinding, object]) -> list[np.ndarray]:
        return [_array(value) for value in result[0].get_outputs()]


def _value(array: np.ndarray) -> ort.OrtValue:
    if array.dtype == ml_dtypes.bfloat16:
        kind, raw = onnx.TensorProto.BFLOAT16, array.view(np.uint16)
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, kind)
    return ort.OrtValue.ortvalue_from_numpy(array)


def _array(value: ort.OrtValue) -> np.ndarray:
    if value.data_type() == "tensor(bfloat16)":
        raise CannotRun("ONNX Runtime's Python interface hands out no bfloat16 output")
    return value.numpy()
