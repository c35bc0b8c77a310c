"""NumPy arrays of ONNX tensors, views of the file wherever it is mapped."""

from __future__ import annotations

import contextlib
from pathlib import Path, PurePosixPath

import numpy as np
import onnx
from onnx import numpy_helper

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.wire import INLINE_LOCATION

MAP_FROM_BYTES = 64 << 10  # smaller tensors are read, so that the file is not held open for them
PACKED = (onnx.TensorProto.INT4, onnx.TensorProto.UINT4, onnx.TensorProto.FLOAT4E2M1)


def dtype_of(elem_type: int, given: object) -> np.dtype:
    """Return the NumPy dtype of an ONNX element type.

    Raises: StitchError for strings, complex numbers and types narrower than a byte.
    """
    kind = onnx.TensorProto.DataType.Name(elem_type)
    refused = kind in ("STRING", "UNDEFINED") or kind.startswith("COMPLEX")
    if refused or elem_type in PACKED or kind in ("INT2", "UINT2"):
        raise StitchError(
            given,
            f"element type {kind.lower()} is not supported",
            "convert it to a bool, integer or float type of 8 bits or more",
        )
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type))


class TensorReader:
    """Reads TensorProtos of one model; `path` is None for a ModelProto given in memory."""

    def __init__(self, given: object, path: Path | None) -> None:
        self.given, self.path = given, path
        self._maps: dict[Path, np.ndarray] = {}

    def __call__(self, tensor: onnx.TensorProto) -> np.ndarray:
        dtype = dtype_of(tensor.data_type, f"{self.given}, tensor {tensor.name!r}")
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            data = self._external(tensor, dtype)
        elif tensor.HasField("raw_data"):
            data = np.frombuffer(tensor.raw_data, np.uint8)
        else:
            return numpy_helper.to_array(tensor)
        shape = tuple(tensor.dims)
        if data.nbytes != dtype.itemsize * int(np.prod(shape, dtype=np.int64)):
            raise StitchError(
                f"{self.given}, tensor {tensor.name!r}",
                f"it holds {data.nbytes} bytes but shape {shape} of {dtype} needs others",
                "export the model again",
            )
        return data.view(dtype).reshape(shape)

    def _external(self, tensor: onnx.TensorProto, dtype: np.dtype) -> np.ndarray:
        where = {entry.key: entry.value for entry in tensor.external_data}
        file = self._locate(where.get("location", ""), tensor.name)
        with self._must_exist(file, tensor.name):
            size = file.stat().st_size
        offset = int(where.get("offset", 0))
        length = int(where.get("length", size - offset))
        if offset < 0 or length < 0 or offset + length > size:
            raise StitchError(
                file,
                f"tensor {tensor.name!r} lies at bytes {offset} to {offset + length} of {size}",
                "copy the whole data file beside the model, or export it again",
            )
        if length < MAP_FROM_BYTES or offset % dtype.itemsize:
            return np.fromfile(file, np.uint8, length, offset=offset)
        if file not in self._maps:
            self._maps[file] = np.memmap(file, np.uint8, "r").view(np.ndarray)
        return self._maps[file][offset : offset + length]

    def _locate(self, location: str, tensor: str) -> Path:
        if location == INLINE_LOCATION and self.path is not None:
            return self.path
        parts = PurePosixPath(location)
        if not location or parts.is_absolute() or ".." in parts.parts:
            raise StitchError(
                f"{self.given}, tensor {tensor!r}",
                f"external data at {location!r} is outside the model's folder",
                "keep external data beside the model",
            )
        return (self.path.parent if self.path else Path()) / location

    @contextlib.contextmanager
    def _must_exist(self, file: Path, tensor: str):
        try:
            yield
        except OSError as error:
            remedy = "copy it beside the model" if self.path else "pass the model's path instead"
            raise StitchError(
                file,
                f"external data of tensor {tensor!r} cannot be read ({error.strerror})",
                remedy,
            ) from error
