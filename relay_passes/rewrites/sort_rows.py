"""Sorts as kernels of the backend, where TVM would call its library on one thread."""

from __future__ import annotations

import tvm
from tvm import ir, relax
from tvm.ir import IRModule
from tvm.ir.transform import PassContext
from tvm.relax.expr_functor import PyExprMutator, mutator

from tir_schedules.apply import OPAQUE_PATTERN
from tir_schedules.backend import backend, current_device
from tir_schedules.device import Device
from tir_schedules.fuel import spend
from tir_schedules.sorting import Sort

from ..graph.graph_functions import rewritten
from .weights import static_shape


@tvm.transform.module_pass(opt_level=0, name="SortRows")
class SortRows:
    """Sort rows of known length by the backend's own kernel, if it has one.

    rewrite: values, places = topk(x, 5)   ->   values, places = call_tir(topk, (x,))

    What is left, WidenSorts and DispatchSortScan make calls of TVM's library. A scheduled kernel is
    left alone by all passes behind this one.
    """

    def __init__(self, device: Device | None = None) -> None:
        self._device = device

    def transform_module(self, mod: IRModule, _ctx: PassContext) -> IRModule:
        device = self._device or current_device()
        if device is None:
            return mod
        return rewritten(mod, lambda mod, _: _Sorter(mod, device))


@mutator
class _Sorter(PyExprMutator):
    def __init__(self, mod: IRModule, device: Device) -> None:
        super().__init__(mod)
        self._device, self.found = device, False

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        sort = sort_of(call)
        if sort is None:
            return call
        kernel = backend(self._device).sort(sort, self._device)
        if isinstance(kernel, str) or not spend("sort_rows", call.op.name):
            return call
        self.found = True
        marked = kernel.with_attrs({"tirx.is_scheduled": True, "op_pattern": OPAQUE_PATTERN})
        made = self.builder_.add_func(marked, call.op.name.rpartition(".")[2])
        fields = call.ty.fields if isinstance(call.ty, relax.TupleType) else [call.ty]
        kinds = [relax.TensorType(sort.result_shape, str(field.dtype)) for field in fields]
        return relax.call_tir(made, [call.args[0]], kinds if len(kinds) > 1 else kinds[0])


def sort_of(call: relax.Call) -> Sort | None:
    """Return what a call sorts, None if it is no sort, or its extents are not known."""
    name = call.op.name if isinstance(call.op, ir.Op) else ""
    if name not in ("relax.topk", "relax.sort", "relax.argsort"):
        return None
    x, attrs = call.args[0], call.attrs
    shape = static_shape(x)
    if not shape:
        return None
    axis, dtype = int(attrs.axis) % len(shape), str(x.ty.dtype)
    if name != "relax.topk":
        places = str(attrs.dtype) if name == "relax.argsort" else None
        descending, count = bool(attrs.descending), shape[axis]
        return Sort(shape, axis, count, descending, dtype, places is None, places)
    kinds, count = str(attrs.ret_type), int(attrs.k)
    count = count if 0 < count <= shape[axis] else shape[axis]
    places = None if kinds == "values" else str(attrs.dtype)
    return Sort(shape, axis, count, bool(attrs.largest), dtype, kinds != "indices", places)
