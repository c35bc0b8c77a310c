"""XLA over the jax.numpy column, weights passed as arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ..onnx_ops.graph import Graph, read
from ..onnx_ops.table import jax_column
from ..peer import CannotRun, Job
from ..simplified import simplified
from .hlo import launches


def prepare(job: Job, _setting: str) -> XlaSession:
    if not job.gpu:
        return XlaSession(read(simplified(job), jax_column()))
    if jax.default_backend() != "gpu":
        raise CannotRun("JAX finds no GPU")
    # Its products of floats are of tf32 on a GPU, unless it is told otherwise.
    jax.config.update("jax_default_matmul_precision", "highest")
    return GpuXlaSession(read(simplified(job), jax_column()))


class XlaSession:
    """Arguments live on jax's device; a call ends when every output is there."""

    def __init__(self, graph: Graph) -> None:
        column = jax_column()
        self._run = jax.jit(lambda weights, *inputs: graph.run(column, weights, inputs))
        self._weights = {name: jax.device_put(value) for name, value in graph.weights.items()}
        self.facts = {"version": jax.__version__}

    def bind(self, inputs: dict[str, np.ndarray]) -> Callable[[], object]:
        run = self._queued(inputs)
        return lambda: jax.block_until_ready(run())

    def _queued(self, inputs: dict[str, np.ndarray]) -> Callable[[], object]:
        """Return a call that comes back while the device works."""
        tensors = [jax.device_put(value) for value in inputs.values()]
        run = self._compiled(tensors)
        weights = self._weights
        return lambda: run(weights, *tensors)

    def _compiled(self, tensors: list[jax.Array]) -> Any:
        return self._run.lower(self._weights, *tensors).compile()

    def fetch(self, result: Any) -> list[np.ndarray]:
        return [np.asarray(value) for value in result]


class GpuXlaSession(XlaSession):
    """Calls queue up: one stream runs them in their order."""

    def bind(self, inputs: dict[str, np.ndarray]) -> Callable[[], object]:
        return self._queued(inputs)

    def _compiled(self, tensors: list[jax.Array]) -> Any:
        compiled = super()._compiled(tensors)
        self.facts |= launches(compiled.as_text())
        return compiled

    def wait(self, result: Any) -> None:
        jax.block_until_ready(result)
