"""A compiled model that runs on a GPU."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tvm_stitch.errors import StitchError
from tvm_stitch.runtime.buffers import InputSlot, byte_offset, data_pointer
from tvm_stitch.runtime.model import Model
from tvm_stitch.runtime.weights import DEVICE_WEIGHTS

from .gpu_driver import gpu

_VECTOR_BYTES = 16  # kernels load so many at a time, from addresses that are a multiple of them
_CUDA = (2, 0)  # DLPack's type and number of the first GPU
_NO_MEMORY = "out of memory"
_LAUNCHING = threading.Lock()


class GpuModel(Model):
    """A model on the first GPU, which is asked for when it first runs.

    `run` copies arrays there and back. Called on CUDA tensors it takes them where they are, on
    PyTorch's current stream if they are PyTorch's, and returns others of its own.
    """

    fetched = DEVICE_WEIGHTS
    _last_stream = 0  # of any model

    def _start(self) -> None:
        self._machine = None

    def _open(self) -> None:
        if self._machine is None:
            self._home = gpu(self.meta.arch)
            super()._start()

    def _on_arrays(self, arrays: Sequence[np.ndarray]) -> list[tvm_ffi.Tensor]:
        slots = list(self._slots.values())
        held = [slot.place(array) for slot, array in zip(slots, arrays, strict=True)]
        with _telling_of_memory():
            self._open()
            results = self._invoke([slot.tensor.copyto(self._home) for slot in slots])
        found = [result.copyto(tvm.cpu()) for result in results]
        self._home.sync()
        del held
        return found

    def _on_tensors(self, tensors: tuple[Any, ...]) -> list[tvm_ffi.Tensor]:
        with _stream_of(tensors), _telling_of_memory():
            self._open()
            slots = zip(self._slots.values(), tensors, strict=True)
            return self._invoke([self._resident(slot, tensor) for slot, tensor in slots])

    def _invoke(self, tensors: Sequence[tvm_ffi.Tensor]) -> list[tvm_ffi.Tensor]:
        """Launch behind what other streams still run: it may read the memory that this writes.

        A call's intermediates are where the last call's are, and what a model lets go of, another
        model gets, while kernels that were launched before have yet to run.
        """
        stream = tvm_ffi.get_raw_stream(self._home)
        with _LAUNCHING:
            if stream != GpuModel._last_stream:
                self._home.sync(GpuModel._last_stream)
                GpuModel._last_stream = stream
            return super()._invoke(tensors)

    def _resident(self, slot: InputSlot, given: Any) -> tvm_ffi.Tensor:
        """Return a tensor of the GPU as kernels read it. Raises: StitchError for any other."""
        if not hasattr(given, "__dlpack__") or _device_of(given) != _CUDA:
            remedy = "move it there, or give arrays to run"
            raise StitchError(f"input {slot.spec.name}", "not on the first GPU", remedy)
        if getattr(given, "is_contiguous", None) and not given.is_contiguous():
            given = given.contiguous()
        tensor = given if isinstance(given, tvm_ffi.Tensor) else tvm_ffi.from_dlpack(given)
        if not slot.fits(tensor):
            raise slot.refused(f"{tensor.dtype}{list(tensor.shape)}")
        whole = byte_offset(tensor) == 0 and data_pointer(tensor) % _VECTOR_BYTES == 0
        return tensor if whole else tensor.copyto(self._home)


@contextlib.contextmanager
def _telling_of_memory() -> Iterator[None]:
    """Raise StitchError where the GPU has no memory left."""
    try:
        yield
    except RuntimeError as error:
        if _NO_MEMORY not in str(error):
            raise
        remedy = "run smaller batches, or free what else is on it"
        raise StitchError("this model", "the GPU is out of memory", remedy) from None


def _device_of(tensor: Any) -> tuple[int, int]:
    kind, number = tensor.__dlpack_device__()
    return int(kind), int(number)


def _stream_of(tensors: tuple[Any, ...]) -> contextlib.AbstractContextManager:
    """Return the context of the stream that kernels are to run on."""
    torch = sys.modules.get("torch")
    if torch is not None and any(isinstance(tensor, torch.Tensor) for tensor in tensors):
        return tvm_ffi.use_torch_stream()
    return contextlib.nullcontext()
