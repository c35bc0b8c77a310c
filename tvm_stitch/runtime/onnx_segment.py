"""A part of a model that ONNX Runtime runs: a call that writes into tensors of ours.

Its first argument has the part's own ONNX bytes, behind a digest that tells parts apart.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import numpy as np
import tvm_ffi

from tvm_stitch.errors import StitchError
from tvm_stitch.runtime.buffers import view
from tvm_stitch.runtime.dtypes import numpy_dtype

FUNCTION = "tvm_stitch.onnx_segment"
DIGEST_BYTES = 16
_REMEDY = "pip install 'tvm-stitch[onnxruntime]'"

_sessions: dict[bytes, Any] = {}


def open_session(data: bytes, given: object) -> Any:
    """Return an ONNX Runtime session. Raises: StitchError if that is missing, or refuses it."""
    if importlib.util.find_spec("onnxruntime") is None:
        raise StitchError(given, "ONNX Runtime is not installed", _REMEDY)
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as errors

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("TVM_NUM_THREADS", "0"))
    options.log_severity_level = 4
    refused = (errors.Fail, errors.InvalidArgument, errors.InvalidGraph, errors.NotImplemented)
    try:
        return onnxruntime.InferenceSession(data, options, ["CPUExecutionProvider"])
    except refused as error:
        reason = " ".join(str(error).split())[:200]
        raise StitchError(
            given, f"ONNX Runtime refuses it ({reason})", "check the model"
        ) from error


def register() -> None:
    """Let TVM call segments. Raises: StitchError without ONNX Runtime."""
    if importlib.util.find_spec("onnxruntime") is None:
        raise StitchError("the model", "ONNX Runtime, which runs parts of it, is missing", _REMEDY)
    tvm_ffi.register_global_func(FUNCTION, _run, override=True)


def _run(data: Any, *tensors: Any) -> None:
    """Run the segment of `data`: tensors that it reads, then those that it writes."""
    raw = _array(data)
    key = raw[:DIGEST_BYTES].tobytes()
    if (session := _sessions.get(key)) is None:
        session = _sessions[key] = open_session(raw[DIGEST_BYTES:].tobytes(), "a segment")
    arrays = [_array(tensor) for tensor in tensors]
    names = [value.name for value in session.get_inputs()]
    made = session.run(None, dict(zip(names, arrays, strict=False)))
    for result, target in zip(made, arrays[len(names) :], strict=True):
        np.copyto(target, result)


def _array(tensor: Any) -> np.ndarray:
    """Return a tensor's memory as an array, which may be written to."""
    return view(tensor, tuple(tensor.shape), numpy_dtype(str(tensor.dtype)))
