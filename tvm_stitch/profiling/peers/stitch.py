"""tvm-stitch itself, through its public interface."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm

import tvm_stitch

from ..peer import Job

_PRODUCT = re.compile("matmul|conv")


def prepare(job: Job, setting: str) -> StitchSession:
    """Compile the model, or with the setting `file` load what was compiled of it beside it."""
    if setting == "file":
        return _session(tvm_stitch.load(job.model.with_suffix(".so")), job)
    model = tvm_stitch.compile(
        job.model,
        target=job.target,
        shapes=job.shapes or None,
        log=job.log,
        profile=job.profile,
        threads=job.threads,
    )
    return _session(model, job)


def _session(model: Any, job: Job) -> StitchSession:
    return GpuStitchSession(model) if job.gpu else StitchSession(model)


class StitchSession:
    """Resident: TVM tensors in, DLPack out. NumPy: the arrays a user has, through `run`."""

    home = tvm.cpu()

    def __init__(self, model: Any) -> None:
        self._model = model
        report = model.report
        self.facts = {
            "kernels": report.kernels,
            "fallbacks": _count(report.fallbacks),
            "products": sum(any(map(_PRODUCT.search, group.ops)) for group in report.groups),
        }

    def bind(self, inputs: dict[str, np.ndarray]) -> Callable[[], object]:
        model = self._model
        tensors = [tvm.runtime.tensor(value, self.home) for value in inputs.values()]
        return lambda: model(*tensors)

    def bind_numpy(self, inputs: dict[str, np.ndarray]) -> Callable[[], object]:
        model = self._model
        return lambda: model.run(inputs)

    def fetch(self, result: Any) -> list[np.ndarray]:
        results = result if isinstance(result, (tuple, list)) else [result]
        return [tvm.runtime.from_dlpack(value).numpy() for value in results]


class GpuStitchSession(StitchSession):
    """Resident: tensors of the GPU in and out, on TVM's stream."""

    home = tvm.cuda(0)

    def wait(self, _result: Any) -> None:
        self.home.sync()


def _count(fallbacks: Any) -> int:
    return fallbacks if isinstance(fallbacks, int) else len(fallbacks)
