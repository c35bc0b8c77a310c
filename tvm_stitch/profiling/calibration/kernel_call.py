"""A kernel of our template, decided otherwise than by default, as a function that runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import tvm
from tvm import tirx

from tir_schedules.backend import Plan, backend, device_of
from tir_schedules.device import CpuDevice
from tvm_stitch import api, targets

from ..kernel_model import kernels_module
from .cpu_kernels import Change


def cpu_device(threads: int) -> CpuDevice:
    """Return this machine with so many threads."""
    return device_of(targets.resolve("x86", threads), threads)


def eager_device(threads: int) -> CpuDevice:
    """Return a device that cuts whatever work there is into tiles and phases."""
    device = cpu_device(threads)
    turns = replace(device.profile.thresholds, cut_regions=1, tile_regions=1)
    return replace(device, profile=replace(device.profile, thresholds=turns))


def planned(func: tirx.PrimFunc, device: CpuDevice, change: Change) -> Plan:
    template = backend(device)
    kernel = template.read(func)
    decisions = change(template.default_decisions(kernel, device))
    return template.plan(kernel, decisions, device)


def kernel_call(
    func: tirx.PrimFunc, device: CpuDevice, change: Change, calls: int = 1
) -> Callable[[], object]:
    """Return what runs a kernel on random inputs, `calls` times in a row."""
    plan = planned(func, device, change)
    scheduled = (
        backend(device).emit(plan, func).with_attrs({"tirx.is_scheduled": True, "op_pattern": 8})
    )
    model = api.compile(kernels_module([scheduled], 1, calls), threads=device.threads)
    generator = np.random.default_rng(0)
    shapes = [_shape(param) for param in scheduled.params[:-1]]
    arrays = [generator.uniform(0.5, 2.0, shape).astype(np.float32) for shape in shapes]
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    return lambda: model(*tensors)


def _shape(param: tirx.Var) -> tuple[int, ...]:
    return tuple(int(extent) for extent in param.ty.shape)
