"""XLA's CPU compiler over the jax.numpy column, weights passed as arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ..onnx_ops.graph import Graph, read
from ..onnx_ops.table import jax_column
from ..peer import Job
from ..simplified import simplified


def prepare(job: Job, _setting: str) -> XlaSession:
    return XlaSession(read(simplified(job), jax_column()))


class XlaSession:
    """Arguments live on jax's device; a call ends when every output is there."""

    def __init__(self, graph: Graph) -> None:
        column = jax_column()
        self._run = jax.jit(lambda weights, *inputs: graph.run(column, weights, inputs))
        self._weights = {name: jax.device_put(value) for name, value in graph.weights.items()}
        self.facts = {"version": jax.__version__}

    def bind(self, inputs: dict[str, np.ndarray]) -> Callable[[], object]:
        tensors = [jax.device_put(value) for value in inputs.values()]
        run = self._run.lower(self._weights, *tensors).compile()
        weights = self._weights
        return lambda: jax.block_until_ready(run(weights, *tensors))

    def fetch(self, result: Any) -> list[np.ndarray]:
        return [np.asarray(value) for value in result]
