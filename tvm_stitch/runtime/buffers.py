"""A caller's arrays in, the model's arrays out, without copying what need not be copied."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import tvm_ffi

from tvm_stitch.errors import StitchError
from tvm_stitch.runtime.artifact import Tensor
from tvm_stitch.runtime.dtypes import dlpack_dtype, numpy_dtype

# A tensor object is a DLTensor behind TVMFFIObject's three words (tvm/ffi/c_api.h), and a
# DLTensor begins with its data pointer.
_DATA_OFFSET_BYTES = 24
_CPU = (1, 0)
_HOST = tvm_ffi.device("cpu", 0)


class InputSlot:
    """One input of a model, as a tensor made once and pointed at each caller's array in turn.

    TVM's own conversion refuses an address that is not a multiple of 64, which NumPy's rarely are,
    and read-only arrays; kernels take any address their elements may have.
    """

    def __init__(self, spec: Tensor, bounds: tuple[int, int] | None) -> None:
        self.spec, self.bounds = spec, bounds
        self.dtype = numpy_dtype(spec.dtype)
        self._borrowed = _Borrowed(spec.shape, self.dtype)
        self.tensor = tvm_ffi.from_dlpack(self._borrowed)
        self._ffi_dtype = self.tensor.dtype
        self._data = ctypes.c_void_p.from_address(data_address(self.tensor))

    def fits(self, tensor: tvm_ffi.Tensor) -> bool:
        """Return whether a tensor has this input's shape and dtype."""
        return tensor.shape == self.spec.shape and tensor.dtype == self._ffi_dtype

    def place(self, value: Any) -> np.ndarray:
        """Point the tensor at `value`, or at a copy if it has another layout; return its array.

        The array must outlive the run. Raises: StitchError for another shape or dtype, or an index
        out of range.
        """
        array = value if type(value) is np.ndarray else as_array(value)
        if array.dtype != self.dtype:
            array = self._native(array)
        if array.shape != self.spec.shape:
            raise self.refused(f"shape {list(array.shape)}")
        flags = array.flags
        if not (flags.c_contiguous and flags.aligned):
            array = array.copy(order="C")
        if self.bounds is not None:
            self.check_bounds(array)
        self._data.value = array.__array_interface__["data"][0]
        return array

    def _native(self, array: np.ndarray) -> np.ndarray:
        """Bring another byte order into this machine's; refuse another dtype."""
        if array.dtype.newbyteorder("=") != self.dtype:
            raise self.refused(f"dtype {array.dtype}")
        return array.astype(self.dtype)

    def check_bounds(self, array: np.ndarray) -> None:
        """Raises: StitchError if an element is out of the input's bounds, which it must have."""
        if not array.size:
            return
        low, high = self.bounds
        # The methods min and max take twice as long to reach the same loops.
        least, most = np.minimum.reduce(array, axis=None), np.maximum.reduce(array, axis=None)
        if least < low or most > high:
            raise StitchError(
                f"input {self.spec.name}",
                f"index {least if least < low else most} is out of range",
                f"give values from {low} to {high}",
            )

    def refused(self, what: str) -> StitchError:
        spec = self.spec
        return StitchError(
            f"input {spec.name}",
            f"{what} is not the model's",
            f"give {spec.dtype}{list(spec.shape)}",
        )


def is_resident(value: Any) -> bool:
    """Return whether `value` is a tensor of this memory without gaps."""
    return isinstance(value, tvm_ffi.Tensor) and value.is_contiguous() and value.device == _HOST


def as_array(value: Any) -> np.ndarray:
    """View any CPU tensor with __dlpack__ as an array; convert the rest as NumPy does."""
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack__"):
        return np.asarray(value)
    if tuple(int(part) for part in value.__dlpack_device__()) != _CPU:
        raise StitchError(
            "a tensor on another device", "the model runs on the CPU", "move it there"
        )
    if getattr(value, "is_contiguous", None) and not value.is_contiguous():
        value = value.contiguous()
    tensor = value if isinstance(value, tvm_ffi.Tensor) else tvm_ffi.from_dlpack(value)
    return view(tensor, tuple(tensor.shape), numpy_dtype(str(tensor.dtype)))


def view(tensor: tvm_ffi.Tensor, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return the tensor's memory as a writable array, which keeps it alive."""
    if dtype.kind != "V":
        return np.from_dlpack(tensor)
    return np.asarray(_Memory(tensor, shape, dtype.itemsize)).view(dtype)


def data_address(tensor: tvm_ffi.Tensor) -> int:
    """Return the address of the tensor's data pointer."""
    return tensor.__chandle__() + _DATA_OFFSET_BYTES


def data_pointer(tensor: tvm_ffi.Tensor) -> int:
    """Return the address of the tensor's first element; 0 for a null pointer."""
    return _word_at(tensor.__chandle__() + _DATA_OFFSET_BYTES).value or 0


def byte_offset(tensor: tvm_ffi.Tensor) -> int:
    """Return how many bytes behind `data_pointer` the first element is: views of TVM's own."""
    return _word_at(data_address(tensor) + _DLTensor.byte_offset.offset).value or 0


_word_at = ctypes.c_void_p.from_address


class _Memory:
    """A tensor of a dtype NumPy's DLPack does not know, as bytes with a shape."""

    def __init__(self, tensor: tvm_ffi.Tensor, shape: tuple[int, ...], itemsize: int) -> None:
        self._tensor = tensor
        self.__array_interface__ = {
            "data": (data_pointer(tensor), False),
            "shape": shape,
            "typestr": f"<V{itemsize}",
            "version": 3,
        }


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype_code", ctypes.c_uint8),
        ("dtype_bits", ctypes.c_uint8),
        ("dtype_lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _DLManagedTensor(ctypes.Structure):
    _fields_ = (
        ("dl_tensor", _DLTensor),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class _Borrowed:
    """A tensor without memory of its own, for `from_dlpack`; it must outlive what that returns."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self._shape = (ctypes.c_int64 * len(shape))(*shape)
        self._managed = _DLManagedTensor()
        tensor = self._managed.dl_tensor
        tensor.device_type, tensor.device_id = _CPU
        tensor.ndim = len(shape)
        tensor.dtype_code, tensor.dtype_bits = dlpack_dtype(dtype)
        tensor.dtype_lanes = 1
        tensor.shape = ctypes.cast(self._shape, ctypes.POINTER(ctypes.c_int64))

    def __dlpack__(self, **_kwargs: Any) -> Any:
        return _new_capsule(ctypes.addressof(self._managed), b"dltensor", None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU
