"""A worker's end of subjects: builds candidates as one library, and calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import tirx
from tvm.target import Target

from tir_schedules.backend import backend, device_of
from tir_schedules.decisions import from_json
from tvm_stitch import api
from tvm_stitch.profiling.kernel_model import kernels_module

from .kernel_inputs import TensorSpec, kernel_inputs, kernel_outputs, random_arrays

Call = Callable[..., Any]  # on the arrays that `arrays` returns
_SCHEDULED = {"tirx.is_scheduled": True, "op_pattern": 8}


class KernelBuilder:
    """Candidates are decisions, which it plans itself."""

    def __init__(self, message: Mapping[str, Any]) -> None:
        self._target, self._threads = Target(message["target"]), message["threads"]
        self._device = device_of(self._target, self._threads)
        self._backend = backend(self._device)
        self._func = tvm.ir.load_json(message["func"])
        self._kernel = self._backend.read(self._func)
        self._kind = type(self._backend.default_decisions(self._kernel, self._device))

    def arrays(self, seed: int) -> list[np.ndarray]:
        """Return what a call takes: random inputs, then outputs."""
        return [*kernel_inputs(self._kernel, seed), *kernel_outputs(self._kernel)]

    def build(self, texts: Mapping[str, str]) -> tuple[dict[str, str], dict[int, Call]]:
        """Return why candidates have no plan, and calls of the others."""
        refused, kernels = {}, {}
        for number, text in texts.items():
            plan = self._backend.plan(self._kernel, from_json(self._kind, text), self._device)
            if isinstance(plan, str):
                refused[number] = plan
            else:
                kernels[number] = self._backend.emit(plan, self._func)
        return refused, self._library(kernels)

    def run(self, call: Call, tensors: Sequence[tvm.runtime.Tensor]) -> list[np.ndarray]:
        """Return the results of a call; what it does not write is not from the call before."""
        results = tensors[len(self._kernel.inputs) :]
        for result in results:
            result.copyfrom(np.full(result.shape, 0xA5, np.uint8).astype(result.dtype))
        call(*tensors)
        return [result.numpy() for result in results]

    def _library(self, kernels: Mapping[str, tirx.PrimFunc]) -> dict[int, Call]:
        """Build scheduled kernels as one library; return calls of them by their numbers."""
        if not kernels:
            return {}
        made = [kernel.with_attrs(_SCHEDULED) for kernel in kernels.values()]
        module = kernels_module(made, len(self._kernel.outputs))
        model = api.compile(module, target=self._target, threads=self._threads)
        return {int(n): model.kernel(f"kernel{place}") for place, n in enumerate(kernels)}


class FunctionBuilder(KernelBuilder):
    """Candidates are the kernel as somebody else has scheduled it, TVM's own rules for one."""

    def build(self, texts: Mapping[str, str]) -> tuple[dict[str, str], dict[int, Call]]:
        return {}, self._library({n: tvm.ir.load_json(text) for n, text in texts.items()})


class RegionBuilder:
    """Candidates are modules of scheduled kernels, each a whole model."""

    def __init__(self, message: Mapping[str, Any]) -> None:
        self._target, self._threads = Target(message["target"]), message["threads"]
        self._inputs = [TensorSpec(tuple(shape), dtype) for shape, dtype in message["inputs"]]
        self._most = message["most"]

    def arrays(self, seed: int) -> list[np.ndarray]:
        return random_arrays(self._inputs, self._most, seed)

    def build(self, texts: Mapping[str, str]) -> tuple[dict[str, str], dict[int, Call]]:
        calls = {}
        for number, text in texts.items():
            module = tvm.ir.load_json(text)
            calls[int(number)] = api.compile(module, target=self._target, threads=self._threads)
        return {}, calls

    def run(self, call: Call, tensors: Sequence[tvm.runtime.Tensor]) -> list[np.ndarray]:
        results = call(*tensors)
        every = results if isinstance(results, tuple) else (results,)
        return [tvm.runtime.from_dlpack(result).numpy() for result in every]


BUILDERS = {"kernel": KernelBuilder, "function": FunctionBuilder, "region": RegionBuilder}
