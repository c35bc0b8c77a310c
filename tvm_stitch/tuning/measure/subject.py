"""What candidates are of: a kernel, or a part of a model's graph. Its parent's end."""

from __future__ import annotations

from typing import Any, Protocol

import tvm

from tir_schedules.decisions import to_json
from tir_schedules.device import Device
from tir_schedules.device.cuda import CudaDevice
from tir_schedules.tuning.candidates import Candidates


def cache_bytes(device: Device) -> int:
    """Return the last cache, where a kernel's buffers may stay from one call to the next."""
    return device.l2_bytes if isinstance(device, CudaDevice) else device.l3_bytes


class Subject(Protocol):
    """Tells a worker what it builds candidates of; `kind` is one of worker.py's."""

    kind: str
    default: Any
    nbytes: int  # that one call reads and writes
    cache_bytes: int

    def message(self) -> dict[str, Any]:
        """Return what a worker loads it from, as JSON types."""

    def text(self, candidate: Any) -> str:
        """Return a candidate as a worker takes it."""


class KernelSubject:
    """A kernel, by what may be decided of it."""

    kind = "kernel"

    def __init__(self, candidates: Candidates) -> None:
        self.candidates = candidates
        self.default = candidates.default
        self.nbytes = sum(tensor.bytes for tensor in candidates.kernel.touched)
        self.cache_bytes = cache_bytes(candidates.device)

    def message(self) -> dict[str, Any]:
        return {"func": tvm.ir.save_json(self.candidates.func)}

    def text(self, candidate: Any) -> str:
        return to_json(candidate)
