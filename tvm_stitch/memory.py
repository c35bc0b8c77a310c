"""The memory of what a run writes: each tensor for itself, and as the executable has them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tvm import relax
from tvm.ir import IRModule
from tvm.ir.transform import Sequential

from tir_schedules.analysis.expr import dtype_bytes

_RESULTS = "relax.builtin.alloc_tensor"
_STORAGE, _PLACED = "relax.memory.alloc_storage", "relax.memory.alloc_tensor"


def peak_bytes(mod: IRModule) -> tuple[int, int]:
    """Return the bytes of what kernels write in one run of `main`: unshared, and as planned.

    TVM's planner lets tensors of disjoint lifetimes share memory; results keep their own. `mod` is
    lowered, with static shapes.
    """
    steps = (
        relax.transform.RewriteDataflowReshape(),
        relax.transform.ToNonDataflow(),
        relax.transform.RemovePurityChecking(),
        relax.transform.CallTIRRewrite(),
        relax.transform.StaticPlanBlockMemory(),
    )
    unshared = planned = 0
    for var, call in _calls(Sequential(steps)(mod)["main"]):
        name = getattr(call.op, "name", "")
        if name == _STORAGE:
            planned += math.prod(int(extent) for extent in call.args[0].values)
        elif name in (_PLACED, _RESULTS):
            size = math.prod(int(n) for n in var.ty.shape.values) * dtype_bytes(str(var.ty.dtype))
            unshared += size
            planned += size if name == _RESULTS else 0
    return unshared, planned


def _calls(function: relax.Function) -> Iterator[tuple[relax.Var, relax.Call]]:
    for block in function.body.blocks:
        for binding in block.bindings:
            if isinstance(getattr(binding, "value", None), relax.Call):
                yield binding.var, binding.value
