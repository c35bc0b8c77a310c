"""OpenVINO's CPU plugin, in f32 (setting `f32`) or in the precision it picks by itself."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import openvino as ov

from ..peer import CannotRun, Job


def prepare(job: Job, setting: str) -> OpenVinoSession:
    if job.gpu:
        raise CannotRun("OpenVINO has no plugin for CUDA")
    core = ov.Core()
    model = core.read_model(job.model)
    if job.shapes:
        model.reshape({name: list(shape) for name, shape in job.shapes.items()})
    config = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": job.threads,
        "NUM_STREAMS": 1,
    }
    if setting:
        config["INFERENCE_PRECISION_HINT"] = setting
    return OpenVinoSession(core.compile_model(model, "CPU", config))


class OpenVinoSession:
    """One request for each set of inputs, which it reads in place."""

    def __init__(self, compiled: ov.CompiledModel) -> None:
        self._compiled = compiled
        precision = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
        self.facts = {"version": ov.__version__.split("-")[0], "precision": precision}

    def bind(self, inputs: dict[str, np.ndarray]) -> Callable[[], object]:
        request = self._compiled.create_infer_request()
        for name, array in inputs.items():
            request.set_tensor(name, _tensor(array))

        def call() -> ov.InferRequest:
            request.start_async()
            request.wait()
            return request

        return call

    def fetch(self, result: ov.InferRequest) -> list[np.ndarray]:
        tensors = [result.get_output_tensor(i) for i in range(len(self._compiled.outputs))]
        return [_array(tensor) for tensor in tensors]


def _tensor(array: np.ndarray) -> ov.Tensor:
    if array.dtype == ml_dtypes.bfloat16:
        return ov.Tensor(array.view(np.uint16), ov.Shape(array.shape), ov.Type.bf16)
    return ov.Tensor(array, shared_memory=True)


def _array(tensor: ov.Tensor) -> np.ndarray:
    if tensor.element_type == ov.Type.bf16:
        return tensor.data.view(ml_dtypes.bfloat16).copy()
    return tensor.data.copy()
