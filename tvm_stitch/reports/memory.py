"""The memory of what a run writes: each tensor for itself, and as the executable has them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tvm import relax
from tvm.ir import IRModule
from tvm.ir.transform import Sequential

from relay_passes.transform import PlanMemory
from tir_schedules.kernel_ir.expr import dtype_bytes

_IN_PLACE = "relax.call_tir_inplace"
_TENSOR, _STORAGE = "relax.builtin.alloc_tensor", "relax.memory.alloc_storage"


def peak_bytes(mod: IRModule) -> tuple[int, int]:
    """Return the bytes of what kernels write in one run of `main`: unshared, and as planned.

    Results of `main` keep memory of their own. `mod` is lowered, with static shapes.
    """
    steps = (
        relax.transform.RewriteDataflowReshape(),
        relax.transform.ToNonDataflow(),
        relax.transform.RemovePurityChecking(),
        relax.transform.CallTIRRewrite(),
    )
    allocated = Sequential(steps)(mod)
    placed = Sequential([PlanMemory(), relax.transform.StaticPlanBlockMemory()])(allocated)
    unshared = sum(_bytes_of(var.ty) for var, _ in _calls(allocated["main"], _TENSOR))
    unshared += sum(_over_operands(*each) for each in _calls(mod["main"], _IN_PLACE))
    planned = sum(_bytes_of(var.ty) for var, _ in _calls(placed["main"], _TENSOR))
    planned += sum(int(call.args[0].values[0]) for _, call in _calls(placed["main"], _STORAGE))
    return unshared, planned


def overwritten(mod: IRModule) -> int:
    """Return how many results in `main` are written over operands."""
    calls = (call for _, call in _calls(mod["main"], _IN_PLACE))
    return sum(place >= 0 for call in calls for place in _places(call))


def _over_operands(var: relax.Var, call: relax.Call) -> int:
    kinds = var.ty.fields if isinstance(var.ty, relax.TupleType) else [var.ty]
    return sum(
        _bytes_of(kind) for kind, place in zip(kinds, _places(call), strict=True) if place >= 0
    )


def _places(call: relax.Call) -> list[int]:
    return [int(place) for place in call.attrs.inplace_indices]


def _bytes_of(kind: relax.TensorType) -> int:
    return math.prod(int(n) for n in kind.shape.values) * dtype_bytes(str(kind.dtype))


def _calls(function: relax.Function, name: str) -> Iterator[tuple[relax.Var, relax.Call]]:
    for block in function.body.blocks:
        for binding in block.bindings:
            value = getattr(binding, "value", None)
            if isinstance(value, relax.Call) and getattr(value.op, "name", "") == name:
                yield binding.var, value
