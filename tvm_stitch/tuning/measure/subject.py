"""What candidates are of: a kernel, or a part of a model's graph. Its parent's end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import tvm

from tir_schedules.decisions import to_json
from tir_schedules.device import Device
from tir_schedules.device.cuda import CudaDevice
from tir_schedules.tuning.candidates import Candidates

from .outcome import Pace


def cache_bytes(device: Device) -> int:
    """Return the last cache, where a kernel's buffers may stay from one call to the next."""
    return device.l2_bytes if isinstance(device, CudaDevice) else device.l3_bytes


class Subject(Protocol):
    """Tells a worker what it builds candidates of; `kind` is one of worker.py's."""

    kind: str
    default: Any

    def copies(self, pace: Pace) -> tuple[int, Sequence[int] | None]:
        """Return through how many copies of buffers calls go, and of which; None: of all."""

    def message(self) -> dict[str, Any]:
        """Return what a worker loads it from, as JSON types."""

    def text(self, candidate: Any) -> str:
        """Return a candidate as a worker takes it."""


class KernelSubject:
    """A kernel, by what may be decided of it.

    Of a model, `weights` are the places of inputs that are, and a run reads `weight_bytes` of such:
    they come from where so many lie.
    """

    kind = "kernel"

    def __init__(
        self, candidates: Candidates, weights: Sequence[int] = (), weight_bytes: int = 0
    ) -> None:
        self.candidates, self._weights, self._weight_bytes = candidates, weights, weight_bytes
        self.default = candidates.default

    def copies(self, pace: Pace) -> tuple[int, Sequence[int] | None]:
        kernel, cache = self.candidates.kernel, cache_bytes(self.candidates.device)
        own = sum(kernel.inputs[place].bytes for place in self._weights)
        nbytes = sum(tensor.bytes for tensor in kernel.touched)
        return pace.copied(nbytes, own, self._weight_bytes, cache, self._weights)

    def message(self) -> dict[str, Any]:
        return {"func": tvm.ir.save_json(self.candidates.func)}

    def text(self, candidate: Any) -> str:
        return to_json(candidate)
