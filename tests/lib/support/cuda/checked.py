"""A kernel planned for a GPU, run as C++ by fibers, and compared with the CPU's template."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm import tirx
from tvm.target import Target

from support.kernels import stitch_case as sc
from support.kernels.scheduled import run as run_on_cpu
from support.kernels.scheduled import scheduled
from support.simt.simulator import Launches, launches
from tir_schedules.cuda import template
from tir_schedules.cuda.plan.decisions import Decisions
from tir_schedules.cuda.plan.kernel_plan import Plan
from tir_schedules.device.cuda import CudaDevice
from tir_schedules.kernel_ir.parse import read
from tir_schedules.kernel_ir.stage import Kernel

H200 = CudaDevice.of(Target({"kind": "cuda", "arch": "sm_90"}, host={"kind": "llvm"}))
BOUND = {"float64": 1e-12, "float16": 2.0**-10, "bfloat16": 2.0**-7}  # others: 1e-5
_SMALL = 5  # integers: their sums and products stay in range


@dataclass(frozen=True)
class OnGpu:
    """A kernel, how it is planned, and its CUDA C++."""

    kernel: Kernel
    plan: Plan
    made: Launches


def planned(func: tirx.PrimFunc, decisions: Decisions | None = None) -> OnGpu:
    """Return a kernel by decisions, or by default ones. It must not be declined."""
    kernel = read(func)
    assert isinstance(kernel, Kernel), kernel
    if decisions is None:
        decisions = template.default_decisions(kernel, H200)
        assert isinstance(decisions, Decisions), decisions
    plan = template.plan(kernel, decisions, H200)
    assert isinstance(plan, Plan), plan
    return OnGpu(kernel, plan, launches(template.emit_plan(plan, func)))


def arrays_for(kernel: Kernel, seed: int) -> list[np.ndarray]:
    """Return random inputs; results begin as zeros."""
    rng, found = np.random.default_rng(seed), []
    for tensor in kernel.params:
        if tensor in kernel.outputs:
            found.append(np.zeros(tensor.shape, tensor.dtype))
        elif tensor.dtype == "bool" or tensor.dtype.startswith(("int", "uint")):
            most = 2 if tensor.dtype == "bool" else _SMALL
            found.append(rng.integers(0, most, tensor.shape).astype(tensor.dtype))
        else:
            found.append(rng.normal(size=tensor.shape).astype(tensor.dtype))
    return found


def reference(func: tirx.PrimFunc, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Return what each parameter holds behind the kernel as the CPU's template runs it.

    Its own tests compare that with NumPy and ONNX Runtime; TVM's own code drops a NaN in max.
    """
    copies = [array.copy() for array in arrays]
    run_on_cpu(scheduled(func, sc.device(1)), *copies)
    return copies


def wrong(func: tirx.PrimFunc, gpu: OnGpu, seed: int, orders: int = 2) -> str | None:
    """Return what is wrong of a kernel in some orders of its threads, or None."""
    kernel = gpu.kernel
    arrays = arrays_for(kernel, seed)
    expected = reference(func, arrays)
    pairs = list(zip(kernel.params, arrays, strict=True))
    inputs = [array for tensor, array in pairs if tensor not in kernel.outputs]
    outputs = [array for tensor, array in pairs if tensor in kernel.outputs]
    for order in range(orders):
        gpu.made.run(inputs, outputs, seed + order)
        for (tensor, got), ref in zip(pairs, expected, strict=True):
            if tensor in kernel.outputs and (reason := _differs(got, ref)):
                return f"{tensor}: {reason}"
    return None


def sectors(gpu: OnGpu) -> dict[str, int]:
    """Return how many sectors of 32 bytes warps move of each parameter."""
    pairs = list(zip(gpu.kernel.params, arrays_for(gpu.kernel, 0), strict=True))
    inputs = [array for tensor, array in pairs if tensor not in gpu.kernel.outputs]
    outputs = [array for tensor, array in pairs if tensor in gpu.kernel.outputs]
    gpu.made.run(inputs, outputs, 0, counting=True)
    (kernel,) = gpu.made.kernels
    found = {tensor.name: kernel.counts(tensor.name) for tensor, _ in pairs}
    return {name: counts.loaded + counts.stored for name, counts in found.items()}


def _differs(got: np.ndarray, ref: np.ndarray) -> str | None:
    bound = BOUND.get(str(ref.dtype), 1e-5)
    one, other = got.astype("float64"), ref.astype("float64")
    finite = np.isfinite(other)
    limit = bound * (np.abs(other) + np.abs(other[finite]).max(initial=0))
    with np.errstate(invalid="ignore"):
        near = np.where(finite, np.abs(one - other) <= limit, one == other)
    bad = ~(near | (np.isnan(one) & np.isnan(other)))
    if not bad.any():
        return None
    return f"{bad.sum()} of {bad.size}, {one[bad][0]} for {other[bad][0]}"
