"""PyTorch's Inductor over the torch column, weights frozen into the compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import torch
import torch._inductor.config

from ..onnx_ops.graph import Graph, read
from ..onnx_ops.table import torch_column
from ..onnx_ops.torch_column import tensor
from ..peer import CannotRun, Job
from ..simplified import simplified


class OnnxModule(torch.nn.Module):
    """The interpreter as a module: its weights are parameters that need no gradient."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph, self._column = graph, torch_column()
        weights = [
            torch.nn.Parameter(tensor(np.array(value)), requires_grad=False)
            for value in graph.weights.values()
        ]
        self.weights = torch.nn.ParameterList(weights)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        weights = dict(zip(self._graph.weights, self.weights, strict=True))
        return tuple(self._graph.run(self._column, weights, inputs))


def prepare(job: Job, setting: str) -> InductorSession:
    torch.set_num_threads(job.threads)
    torch.set_grad_enabled(False)
    torch._dynamo.reset()
    torch._inductor.config.freezing = True
    if job.gpu:
        use_gpu()
    module = OnnxModule(read(simplified(job), torch_column())).eval().to(torch.get_default_device())
    made = GpuInductorSession if job.gpu else InductorSession
    return made(module, setting or "default")


def use_gpu() -> None:
    """Let PyTorch make its tensors on the GPU, and compute with floats as they are.

    Raises: CannotRun without one.
    """
    if not torch.cuda.is_available():
        raise CannotRun("PyTorch finds no GPU")
    torch.set_default_device("cuda")
    # Products of floats are of tf32 otherwise, convolutions by default.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def placed(value: np.ndarray) -> torch.Tensor:
    """Return an array as a tensor: over its memory, or on the GPU."""
    return tensor(value).to(torch.get_default_device())


class InductorSession:
    """Compiled at the first `bind`: exporting flattens the interpreter into one torch graph.

    `mode` is torch.compile's: "max-autotune" also times templates of its own for each product.
    """

    def __init__(self, module: OnnxModule, mode: str) -> None:
        self._module, self._mode, self._compiled = module, mode, None
        self.facts = {"version": torch.__version__, "mode": mode}

    def bind(self, inputs: dict[str, np.ndarray]) -> Callable[[], object]:
        tensors = tuple(placed(value) for value in inputs.values())
        if self._compiled is None:
            self._compiled = torch.compile(_flat(self._module, tensors), mode=self._mode)
            self._compiled(*tensors)  # torch.compile does its work in the first call
        compiled = self._compiled
        return lambda: compiled(*tensors)

    def fetch(self, result: Any) -> list[np.ndarray]:
        return [array(value) for value in result]


class GpuInductorSession(InductorSession):
    """Calls queue up on PyTorch's stream."""

    def wait(self, _result: Any) -> None:
        torch.cuda.synchronize()


def _flat(module: OnnxModule, tensors: tuple[torch.Tensor, ...]) -> torch.fx.GraphModule:
    """Return the module as one graph of torch ops, without export's checks around each call."""
    exported = torch.export.export(module, tensors, strict=False).module(check_guards=False)
    exported.graph.set_codegen(torch.fx.graph.CodeGen())
    return torch.fx.GraphModule(exported, exported.graph)


def array(value: torch.Tensor) -> np.ndarray:
    """Return a tensor as an array of its own."""
    value = value.cpu()
    if value.dtype == torch.bfloat16:
        return value.contiguous().view(torch.uint16).numpy().view(ml_dtypes.bfloat16).copy()
    return value.numpy().copy()
