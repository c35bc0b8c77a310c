"""ONNX Runtime's CPU or CUDA provider, inputs and outputs bound to its own memory."""

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

_CUDA = "CUDAExecutionProvider"


def prepare(job: Job, _setting: str) -> OrtSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = job.threads, 1
    options.log_severity_level = 4
    if job.gpu and _CUDA not in ort.get_available_providers():
        raise CannotRun("this ONNX Runtime has no CUDA provider")
    # Its products of floats are of tf32 on a GPU, unless it is told otherwise.
    providers = [(_CUDA, {"use_tf32": "0"})] if job.gpu else ["CPUExecutionProvider"]
    made = GpuOrtSession if job.gpu else OrtSession
    try:
        return made(ort.InferenceSession(job.model, options, providers=providers))
    except (Fail, InvalidArgument, InvalidGraph, NotImplemented) as error:
        raise CannotRun(" ".join(str(error).split())) from error


class OrtSession:
    """Outputs are allocated in the first run of a binding and reused by the next."""

    home = "cpu"

    def __init__(self, session: ort.InferenceSession) -> None:
        self._session, self._options = session, ort.RunOptions()
        self.facts = {"version": ort.__version__}

    def bind(self, inputs: dict[str, np.ndarray]) -> Callable[[], object]:
        session, binding, options = self._session, self._session.io_binding(), self._options
        # The values must outlive the binding, which does not keep them.
        values = {name: _value(array, self.home) for name, array in inputs.items()}
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        names = [output.name for output in session.get_outputs()]
        for name in names:
            binding.bind_output(name, self.home)
        session.run_with_iobinding(binding)
        for name, value in zip(names, binding.get_outputs(), strict=True):
            binding.bind_ortvalue_output(name, value)

        def call() -> object:
            session.run_with_iobinding(binding, options)
            return binding, values

        return call

    def fetch(self, result: tuple[ort.IOBinding, object]) -> list[np.ndarray]:
        return [_array(value) for value in result[0].get_outputs()]


class GpuOrtSession(OrtSession):
    """Calls queue up: a run does not wait for the GPU."""

    home = "cuda"

    def __init__(self, session: ort.InferenceSession) -> None:
        super().__init__(session)
        self._options.add_run_config_entry("disable_synchronize_execution_providers", "1")

    def wait(self, result: tuple[ort.IOBinding, object]) -> None:
        result[0].synchronize_outputs()


def _value(array: np.ndarray, home: str) -> ort.OrtValue:
    if home != "cpu" and array.dtype == ml_dtypes.bfloat16:
        raise CannotRun("ONNX Runtime's Python interface places no bfloat16 input on a GPU")
    if array.dtype == ml_dtypes.bfloat16:
        kind, raw = onnx.TensorProto.BFLOAT16, array.view(np.uint16)
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, kind)
    return ort.OrtValue.ortvalue_from_numpy(array, home, 0)


def _array(value: ort.OrtValue) -> np.ndarray:
    if value.data_type() == "tensor(bfloat16)":
        raise CannotRun("ONNX Runtime's Python interface hands out no bfloat16 output")
    return value.numpy()
