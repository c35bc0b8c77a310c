"""What candidates are of: a kernel, or a part of a model's graph. Its parent's end."""

from __future__ import annotations

from typing import Any, Protocol

import tvm

from tir_schedules.decisions import to_json
from tir_schedules.tuning.candidates import Candidates


class Subject(Protocol):
    """Tells a worker what it builds candidates of; `kind` is one of worker.py's."""

    kind: str
    default: Any
    nbytes: int  # that one call reads and writes
    l3_bytes: int

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
        self.l3_bytes = candidates.device.l3_bytes

    def message(self) -> dict[str, Any]:
        return {"func": tvm.ir.save_json(self.candidates.func)}

    def text(self, candidate: Any) -> str:
        return to_json(candidate)
