"""A whole model lowered for a GPU, each of its kernels run as C++ by fibers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.ir import IRModule

from support.simt.simulator import launches
from tvm_stitch.build import Lowered


def run(lowered: Lowered, inputs: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
    """Return the outputs of a lowered model. Raises: SimulationError."""
    mod = _with_calls(lowered.mod, seed)
    made = tvm.compile(mod, target="llvm")
    machine = relax.VirtualMachine(made, tvm.cpu())
    imported = lowered.imported
    arrays = [*inputs, *imported.weights]
    found = machine["main"](*(tvm.runtime.tensor(array) for array in arrays))
    return [each.numpy() for each in ([found] if hasattr(found, "numpy") else found)]


def _with_calls(mod: IRModule, seed: int) -> IRModule:
    """Return the module with a call of the simulator in the place of each kernel."""
    caller = _Caller(mod)
    for gvar, func in mod.functions_items():
        if isinstance(func, relax.Function):
            caller.builder_.update_func(gvar, caller.visit_expr(func))
    for name, results in caller.results.items():
        run = _kernel(mod[name], results, seed)
        tvm_ffi.register_global_func(f"simt.{name}", run, override=True)
    out = caller.builder_.get()
    kept = {g: f for g, f in out.functions_items() if not isinstance(f, tirx.PrimFunc)}
    return IRModule(kept, attrs=mod.attrs)


def _kernel(func: tirx.PrimFunc, results: int, seed: int) -> Any:
    made = launches(func)

    def run(*tensors: tvm.runtime.Tensor) -> None:
        arrays = [tensor.numpy() for tensor in tensors]
        made.run(arrays[:-results], arrays[-results:], seed)
        for tensor, array in zip(tensors[-results:], arrays[-results:], strict=True):
            tensor.copyfrom(array)

    return run


@relax.expr_functor.mutator
class _Caller(relax.PyExprMutator):
    """Calls the simulator; `results` are how many each kernel has."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.results: dict[str, int] = {}

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if call.op != tvm.ir.Op.get("relax.call_tir"):
            return call
        kernel, arguments = call.args
        made = call.ty_args[0]
        results = list(getattr(made, "fields", (made,)))
        self.results[kernel.name_hint] = len(results)
        return relax.call_dps_packed(f"simt.{kernel.name_hint}", arguments, results)
