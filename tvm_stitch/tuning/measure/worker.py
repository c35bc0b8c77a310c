"""A process that builds candidates of one kernel, checks them and times them in turns.

It is told the kernel as IR by its parent, and decisions as JSON, which it plans itself.
"""

from __future__ import annotations

import gc
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import tvm
from tvm.target import Target

from tir_schedules.backend import backend, device_of
from tir_schedules.decisions import from_json
from tvm_stitch import api
from tvm_stitch.profiling.answering import answer
from tvm_stitch.profiling.kernel_model import kernels_module
from tvm_stitch.verification.judge import worst_of

from .kernel_inputs import kernel_inputs, kernel_outputs

_SCHEDULED = {"tirx.is_scheduled": True, "op_pattern": 8}
_WARM_NS = 300_000
_CLOCK_NS = 20_000  # a slice of calls under one reading of the clock is at least so long


class Bench:
    """The candidates of one kernel, by their numbers; 0 is what the cost model decides."""

    def load(self, message: dict) -> dict:
        """Take a kernel: nothing of the one before is left."""
        self._calls: dict[int, Callable[..., None]] = {}
        gc.collect()
        self._target, self._threads = Target(message["target"]), message["threads"]
        self._device = device_of(self._target, self._threads)
        self._backend = backend(self._device)
        self._func = tvm.ir.load_json(message["func"])
        self._kernel = self._backend.read(self._func)
        self._kind = type(self._backend.default_decisions(self._kernel, self._device))
        inputs = kernel_inputs(self._kernel, message["seed"])
        self._sets = [self._placed(inputs) for _ in range(message["sets"])]
        self._usual: list[np.ndarray] = []
        return {}

    def build(self, message: dict) -> dict:
        """Build candidates as one library; refuse those that have no plan."""
        refused, kernels = {}, {}
        for number, text in message["decisions"].items():
            plan = self._backend.plan(self._kernel, from_json(self._kind, text), self._device)
            if isinstance(plan, str):
                refused[number] = plan
            else:
                kernels[number] = self._backend.emit(plan, self._func).with_attrs(_SCHEDULED)
        if kernels:
            module = kernels_module([*kernels.values()], len(self._kernel.outputs))
            model = api.compile(module, target=self._target, threads=self._threads)
            for place, number in enumerate(kernels):
                self._calls[int(number)] = model.kernel(f"kernel{place}")
        return {"refused": refused}

    def check(self, message: dict) -> dict:
        """Run a candidate once; say how its results are not those of number 0."""
        number, tensors = message["number"], self._sets[0]
        results = tensors[len(self._kernel.inputs) :]
        for result in results:
            result.copyfrom(np.full(result.shape, 0xA5, np.uint8).astype(result.dtype))
        self._calls[number](*tensors)
        got = [result.numpy() for result in results]
        if number == 0:
            self._usual = got
            return {"wrong": None}
        dtypes = [str(array.dtype) for array in got]
        reference = [_widened(array) for array in self._usual]
        worst = worst_of(got, reference, dtypes, lambda: iter(()))
        return {"wrong": None if worst is None else str(worst)}

    def time(self, message: dict) -> dict:
        """Return ns of a call for each candidate and round, each round in the order that is told.

        Every call takes the next set of buffers. What is slow in a round is not timed again.
        """
        found: dict[int, list[float]] = {number: [] for number in message["rounds"][0]}
        slow: set[int] = set()
        for order in message["rounds"]:
            for number in order:
                if number not in slow:
                    found[number].append(self._slice(number, message["slice_ns"]))
            usual = message["slow"] * found[0][-1]
            slow |= {number for number, times in found.items() if times[-1] > usual}
        return {"ns": found}

    def drop(self, message: dict) -> dict:
        """Forget candidates, and unload what was built of them alone."""
        for number in message["numbers"]:
            self._calls.pop(number, None)
        gc.collect()
        return {}

    def _placed(self, inputs: Sequence[np.ndarray]) -> list[tvm.runtime.Tensor]:
        arrays = [*inputs, *kernel_outputs(self._kernel)]
        return [tvm.runtime.tensor(array) for array in arrays]

    def _slice(self, number: int, slice_ns: int) -> float:
        """Return ns a call over about so long, after warm-up."""
        call, sets, clock = self._calls[number], self._sets, time.perf_counter_ns
        warm_until, calls, start = clock() + _WARM_NS, 0, clock()
        while True:
            call(*sets[calls % len(sets)])
            calls += 1
            now = clock()
            if now > warm_until and calls >= len(sets):
                break
        each = max(1.0, (now - start) / calls)
        inner = max(1, math.ceil(_CLOCK_NS / each))
        samples = []
        for _ in range(max(3, math.ceil(slice_ns / each / inner))):
            start = clock()
            for at in range(inner):
                call(*sets[(calls + at) % len(sets)])
            samples.append((clock() - start) / inner)
            calls += inner
        return statistics.median(samples)


def _widened(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype.kind in "fV" else array


def main(_name: str, *ends: str) -> None:
    bench = Bench()
    actions = (bench.load, bench.build, bench.check, bench.time, bench.drop)
    answer({action.__name__: action for action in actions}, *ends)


if __name__ == "__main__":
    main(*sys.argv[1:])
