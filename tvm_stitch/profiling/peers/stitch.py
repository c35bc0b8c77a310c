"""tvm-stitch itself, through its public interface."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import tvm

import tvm_stitch
from tir_schedules.backend import device_of
from tir_schedules.device.profile import load_profile
from tvm_stitch import targets

from ..peer import Job


def prepare(job: Job, setting: str) -> StitchSession:
    with ExitStack() as stack:
        told = stack.enter_context(_deciding(job)) if setting == "tuned" else {}
        model = tvm_stitch.compile(
            job.model,
            target=job.target,
            shapes=job.shapes or None,
            log=None if setting == "tuned" else job.log,
            profile=job.profile,
            threads=job.threads,
        )
    session = StitchSession(model)
    session.facts |= Counter(each.how for each in told.values())
    return session


@contextmanager
def _deciding(job: Job) -> Iterator[dict[str, Any]]:
    from tvm_stitch.tuning.log import Log
    from tvm_stitch.tuning.reuse import deciding

    profile = None if job.profile is None else load_profile(job.profile)
    device = device_of(targets.resolve(job.target, job.threads), job.threads, profile)
    with Log.open(job.log) as log, deciding(log, device) as told:
        yield told


class StitchSession:
    """Resident: TVM tensors in, DLPack out. NumPy: the arrays a user has, through `run`."""

    def __init__(self, model: Any) -> None:
        self._model = model
        report = model.report
        self.facts = {"kernels": report.kernels, "fallbacks": _count(report.fallbacks)}

    def bind(self, inputs: dict[str, np.ndarray]) -> Callable[[], object]:
        model, tensors = self._model, [tvm.runtime.tensor(value) for value in inputs.values()]
        return lambda: model(*tensors)

    def bind_numpy(self, inputs: dict[str, np.ndarray]) -> Callable[[], object]:
        model = self._model
        return lambda: model.run(inputs)

    def fetch(self, result: Any) -> list[np.ndarray]:
        results = result if isinstance(result, (tuple, list)) else [result]
        return [tvm.runtime.from_dlpack(value).numpy() for value in results]


def _count(fallbacks: Any) -> int:
    return fallbacks if isinstance(fallbacks, int) else len(fallbacks)
