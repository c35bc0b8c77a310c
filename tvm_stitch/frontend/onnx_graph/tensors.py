"""NumPy arrays of ONNX tensors, views of the file wherever it is mapped."""

from __future__ import annotations

import contextlib
import math
import re
import stat
from pathlib import Path, PurePosixPath

import numpy as np
import onnx
from onnx import numpy_helper

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.limits import check_size
from tvm_stitch.frontend.onnx_graph.wire import INLINE_LOCATION

MAP_FROM_BYTES = 64 << 10  # smaller tensors are read, so that the file is not held open for them
# By how many lie in a byte.
PACKED = {
    onnx.TensorProto.INT2: 4,
    onnx.TensorProto.UINT2: 4,
    onnx.TensorProto.INT4: 2,
    onnx.TensorProto.UINT4: 2,
    onnx.TensorProto.FLOAT4E2M1: 2,
}


def dtype_of(elem_type: int, given: object) -> np.dtype:
    """Return the NumPy dtype of an ONNX element type.

    Raises: StitchError for strings, complex numbers and floats that are powers of two alone.
    """
    if elem_type not in onnx.TensorProto.DataType.values():
        raise StitchError(given, f"element type {elem_type} is unknown", "export the model again")
    kind = onnx.TensorProto.DataType.Name(elem_type)
    if kind in ("STRING", "UNDEFINED", "FLOAT8E8M0") or kind.startswith("COMPLEX"):
        raise StitchError(
            given,
            f"element type {kind.lower()} is not supported",
            "convert it to a bool, integer or float type",
        )
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type))


def check_tensor(tensor: onnx.TensorProto, given: object) -> np.dtype:
    """Return a tensor's dtype.

    Raises: StitchError if there is none, or its shape does not fit the numbers that it holds.
    """
    dtype = dtype_of(tensor.data_type, given)
    check_size(tensor.dims, dtype.itemsize, given)
    if tensor.HasField("segment"):
        raise StitchError(given, "it is cut into segments", "store it whole")
    elements, shape = math.prod(tensor.dims), tuple(tensor.dims)
    if (each := PACKED.get(tensor.data_type)) is not None:
        elements = -(-elements // each)  # bytes, each an item of the list if there are no others
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return dtype
    if tensor.HasField("raw_data"):
        held, needed, unit = len(tensor.raw_data), elements * dtype.itemsize, "bytes"
    else:
        field = onnx.helper.tensor_dtype_to_field(tensor.data_type)
        held, needed, unit = len(getattr(tensor, field)), elements, "elements"
    if held != needed:
        raise _misfit(given, f"{held} {unit}", shape, dtype)
    return dtype


def _misfit(given: object, held: str, shape: tuple[int, ...], dtype: np.dtype) -> StitchError:
    rule = f"it holds {held} but shape {shape} of {dtype} needs others"
    return StitchError(given, rule, "export the model again")


class TensorReader:
    """Reads TensorProtos of one model; `path` is None for a ModelProto given in memory."""

    def __init__(self, given: object, path: Path | None) -> None:
        self.given, self.path = given, path
        self._maps: dict[Path, np.ndarray] = {}

    def __call__(self, tensor: onnx.TensorProto) -> np.ndarray:
        given = f"{self.given}, tensor {tensor.name!r}"
        dtype = check_tensor(tensor, given)
        if tensor.data_type in PACKED:
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                raise StitchError(given, f"{dtype} lies in another file", "store it in the model")
            return numpy_helper.to_array(tensor)
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            data = self._external(tensor, dtype)
        elif tensor.HasField("raw_data"):
            data = np.frombuffer(tensor.raw_data, np.uint8)
        else:
            return numpy_helper.to_array(tensor)
        shape = tuple(tensor.dims)
        if data.nbytes != dtype.itemsize * math.prod(shape):
            raise _misfit(given, f"{data.nbytes} bytes", shape, dtype)
        return data.view(dtype).reshape(shape)

    def _external(self, tensor: onnx.TensorProto, dtype: np.dtype) -> np.ndarray:
        where = {entry.key: entry.value for entry in tensor.external_data}
        file = self._locate(where.get("location", ""), tensor.name)
        with self._must_exist(file, tensor.name):
            self._check_file(file, tensor.name)
            size = file.stat().st_size
        offset = self._count(where, "offset", 0, tensor.name)
        length = self._count(where, "length", max(size - offset, 0), tensor.name)
        if offset + length > size:
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
        if not location.strip("\0") or parts.is_absolute() or ".." in parts.parts:
            raise self._outside(location, tensor)
        return (self.path.parent if self.path else Path()) / location.replace("\0", "?")

    def _check_file(self, file: Path, tensor: str) -> None:
        """Refuse a link that leads elsewhere, but not beside the model where it is a link too."""
        if file == self.path:
            return
        if not stat.S_ISREG(file.stat().st_mode):
            raise StitchError(
                file,
                f"external data of tensor {tensor!r} is no regular file",
                "keep external data beside the model",
            )
        model = self.path or Path("model")
        homes = model.parent.resolve(), model.resolve().parent
        if not any(file.resolve().is_relative_to(home) for home in homes):
            raise self._outside(str(file), tensor)

    def _count(self, where: dict[str, str], key: str, default: int, tensor: str) -> int:
        if key not in where:
            return default
        if not re.fullmatch(r"[0-9]{1,19}", where[key]):
            raise StitchError(
                f"{self.given}, tensor {tensor!r}",
                f"its external {key} {where[key][:40]!r} is no count of bytes",
                "export the model again",
            )
        return int(where[key])

    def _outside(self, location: str, tensor: str) -> StitchError:
        return StitchError(
            f"{self.given}, tensor {tensor!r}",
            f"external data at {location!r} is outside the model's folder",
            "keep external data beside the model",
        )

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
