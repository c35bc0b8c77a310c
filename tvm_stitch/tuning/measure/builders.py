"""A worker's end of subjects: builds candidates as one library, and calls them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import tirx
from tvm.target import Target

from tir_schedules.backend import backend, device_of
from tir_schedules.decision_source import using
from tir_schedules.decisions import from_json
from tvm_stitch import api
from tvm_stitch.build import reading_log
from tvm_stitch.profiling.kernel_model import kernels_module
from tvm_stitch.runtime.gpu_driver import gpu
from tvm_stitch.targets import gpu_arch
from tvm_stitch.verification.judge import worst_of
from tvm_stitch.verification.samples.inputs import random_inputs

from .kernel_inputs import TensorSpec, kernel_inputs, kernel_outputs, random_arrays
from .told_forms import ToldForms

Call = Callable[..., Any]  # on the arrays that `arrays` returns
MODEL_BOUND = 1e-4  # of the largest result
_SCHEDULED = {"tirx.is_scheduled": True, "op_pattern": 8}


def home_of(target: Target) -> tvm.runtime.Device:
    """Return where kernels of a target run. Raises: StitchError for a GPU that is not here."""
    arch = gpu_arch(target)
    return gpu(arch) if arch else tvm.cpu()


def widened(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype.kind in "fV" else array


def _worst(got: Sequence[np.ndarray], usual: Sequence[np.ndarray]) -> str | None:
    """Return how results are not the usual ones, None if they are."""
    dtypes = [str(array.dtype) for array in got]
    worst = worst_of(got, [*map(widened, usual)], dtypes, lambda: iter(()))
    return None if worst is None else str(worst)


def _results(call: Call, tensors: Sequence[tvm.runtime.Tensor]) -> list[np.ndarray]:
    """Return what a model gives."""
    results = call(*tensors)
    every = results if isinstance(results, tuple) else (results,)
    return [tvm.runtime.from_dlpack(result).numpy() for result in every]


class KernelBuilder:
    """Candidates are decisions, which it plans itself."""

    def __init__(self, message: Mapping[str, Any]) -> None:
        self._target, self._threads = Target(message["target"]), message["threads"]
        self.home = home_of(self._target)
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

    def wrong(self, got: Sequence[np.ndarray], usual: Sequence[np.ndarray]) -> str | None:
        return _worst(got, usual)

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
        self.home = home_of(self._target)
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
        return _results(call, tensors)

    def wrong(self, got: Sequence[np.ndarray], usual: Sequence[np.ndarray]) -> str | None:
        return _worst(got, usual)


class ModelBuilder:
    """Candidates are forms of a model's ops, the model compiled as they say."""

    def __init__(self, message: Mapping[str, Any]) -> None:
        self._path, self._options = message["path"], message["options"]
        self.home = tvm.cpu()
        self._usual = api.compile(self._path, **self._options)

    def arrays(self, seed: int) -> list[np.ndarray]:
        return [*random_inputs(self._usual.meta, seed).values()]

    def build(self, texts: Mapping[str, str]) -> tuple[dict[str, str], dict[int, Call]]:
        calls: dict[int, Call] = {}
        for number, text in texts.items():
            forms = tuple((op, form) for op, form in json.loads(text))
            with using(ToldForms(forms)):
                made = api.compile(self._path, **self._options) if forms else self._usual
            calls[int(number)] = made
        return {}, calls

    def run(self, call: Call, tensors: Sequence[tvm.runtime.Tensor]) -> list[np.ndarray]:
        return _results(call, tensors)

    def wrong(self, got: Sequence[np.ndarray], usual: Sequence[np.ndarray]) -> str | None:
        """Return how results are not the usual ones; other forms round otherwise in each layer."""
        for number, (one, other) in enumerate(zip(got, usual, strict=True)):
            error = np.abs(widened(one) - widened(other)).max(initial=0.0)
            most = np.abs(widened(other)).max(initial=0.0)
            if not error <= MODEL_BOUND * most:
                return f"result {number} is off by {error:.3g} of {most:.3g}"
        return None


class TunedBuilder(ModelBuilder):
    """Candidates are the parts of a tuning log that a model goes by."""

    def __init__(self, message: Mapping[str, Any]) -> None:
        super().__init__(message)
        self._log = message["log"]

    def build(self, texts: Mapping[str, str]) -> tuple[dict[str, str], dict[int, Call]]:
        return {}, {int(number): self._by(tuple(json.loads(t))) for number, t in texts.items()}

    def _by(self, parts: tuple[str, ...]) -> Call:
        if not parts:
            return self._usual
        with reading_log(self._log, parts):
            return api.compile(self._path, **self._options)


BUILDERS = {
    "kernel": KernelBuilder,
    "function": FunctionBuilder,
    "region": RegionBuilder,
    "model": ModelBuilder,
    "tuned": TunedBuilder,
}
