"""What PyTorch's users call: the framework's own fused op, run eagerly on a zoo subgraph.

A zoo model is recognised by its graph's name; other models have no row here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper

from ..peer import CannotRun, Job
from .inductor import array, placed, use_gpu

Tensors = Mapping[str, torch.Tensor]


def _layer_norm(x: torch.Tensor, t: Tensors) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], t["weight"], t["bias"], 1e-5)


def _group_norm(t: Tensors) -> torch.Tensor:
    weight, bias = t["weight"].flatten(), t["bias"].flatten()
    return F.group_norm(t["x"], math.gcd(len(weight), 32), weight, bias, 1e-5)


def _mean_variance(t: Tensors) -> tuple[torch.Tensor, ...]:
    return torch.var_mean(t["x"], -1, correction=0, keepdim=True)[::-1]


# Each takes the model's inputs and weights by name; the sizes and epsilons are the zoo's defaults.
FUSED: dict[str, Callable[[Tensors], torch.Tensor | tuple[torch.Tensor, ...]]] = {
    "bias_gelu": lambda t: F.gelu(t["x"] + t["bias"]),
    "bias_gelu_tanh": lambda t: F.gelu(t["x"] + t["bias"], approximate="tanh"),
    "groupnorm": _group_norm,
    "l2_normalize": lambda t: F.normalize(t["x"], dim=-1, eps=1e-6),
    "layernorm": lambda t: _layer_norm(t["x"], t),
    "layernorm_decomposed": lambda t: _layer_norm(t["x"], t),
    "logsoftmax_nll": lambda t: F.cross_entropy(t["x"], t["target"], reduction="none"),
    "masked_softmax": lambda t: F.softmax(t["x"] / 8 + t["mask"], -1),
    "mean_variance": _mean_variance,
    "residual_layernorm": lambda t: _layer_norm(t["x"] + t["residual"], t),
    "rmsnorm": lambda t: F.rms_norm(t["x"], t["x"].shape[-1:], t["weight"], 1e-5),
    "softmax": lambda t: F.softmax(t["x"], -1),
}


def prepare(job: Job, _setting: str) -> NativeSession | GpuNativeSession:
    model = onnx.load(job.model)
    if model.producer_name != "zoo" or model.graph.name not in FUSED:
        raise CannotRun("no framework op")
    torch.set_num_threads(job.threads)
    if job.gpu:
        use_gpu()
    weights = {w.name: placed(numpy_helper.to_array(w).copy()) for w in model.graph.initializer}
    made = GpuNativeSession if job.gpu else NativeSession
    return made(FUSED[model.graph.name], weights)


class NativeSession:
    """One eager call, in inference mode."""

    def __init__(self, function: Callable[[Tensors], object], weights: Tensors) -> None:
        self._function, self._weights = function, weights
        self.facts = {"version": torch.__version__}

    def bind(self, inputs: dict[str, np.ndarray]) -> Callable[[], object]:
        tensors = {**self._weights, **{name: placed(value) for name, value in inputs.items()}}
        function = self._function

        @torch.inference_mode()
        def call() -> object:
            return function(tensors)

        return call

    def fetch(self, result: object) -> list[np.ndarray]:
        results = result if isinstance(result, tuple) else (result,)
        return [array(value) for value in results]


class GpuNativeSession(NativeSession):
    """Calls queue up on PyTorch's stream."""

    def wait(self, _result: object) -> None:
        torch.cuda.synchronize()
