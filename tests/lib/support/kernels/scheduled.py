"""A PrimFunc scheduled for a device, and run on arrays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import tvm
from tvm import tirx
from tvm.ir import IRModule

from support.kernels import stitch_case as sc
from tir_schedules.cpu.template import emit_plan
from tir_schedules.default_plan import plan_prim_func
from tvm_stitch import targets
from tvm_stitch.runtime.artifact import Tensor
from tvm_stitch.runtime.buffers import InputSlot

SMALL_CACHES = replace(sc.device(1), l2_bytes=512, l3_bytes=1024)


def scheduled(kernel: tirx.PrimFunc, device) -> tirx.PrimFunc:
    plan = plan_prim_func(kernel, device)
    assert not isinstance(plan, str), plan
    return emit_plan(plan, kernel)


def run(kernel: tirx.PrimFunc, *arrays: np.ndarray) -> None:
    public = IRModule({"main": kernel.with_attr("global_symbol", "main")})
    main = tvm.compile(public, targets.resolve("x86", 1)).jit()["main"]
    slots = [InputSlot(Tensor("t", a.shape, str(a.dtype)), None) for a in arrays]
    for slot, array in zip(slots, arrays, strict=True):
        assert slot.place(array) is array
    main(*(slot.tensor for slot in slots))
