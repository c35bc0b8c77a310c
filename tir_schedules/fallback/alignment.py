"""Kernels that take any address their elements may have.

TVM lets LLVM assume 64 bytes of every parameter, which a NumPy array has one time in four.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import IRModule, Var
from tvm.ir.transform import PassContext

from ..kernel_ir.expr import dtype_bytes


@tvm.transform.module_pass(opt_level=0, name="DropAlignment")
class DropAlignment:
    """Assume no more of the address of a parameter than that its elements are aligned.

    rewrite:
        f(x: Buffer((7,), "float32", align=64)) -> f(x: Buffer((7,), "float32", align=4))
    """

    def transform_module(self, mod: IRModule, _ctx: PassContext) -> IRModule:
        out = IRModule(mod.functions, attrs=mod.attrs)
        for gvar, func in mod.functions_items():
            if isinstance(func, tirx.PrimFunc):
                out[gvar] = drop_alignment(func)
        return out


def drop_alignment(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return `func` with parameters, and views within it, aligned to their items only."""
    realigned = {v: _realigned(v) for v in (*func.params, *_views(func)) if _is_wide(v)}
    if not realigned:
        return func

    def replace(var: Var, _mutator: tvm_ffi.StructuralMutator) -> Var:
        return realigned.get(var, var)

    return tvm_ffi.structural_mutate(func, [(Var, replace)])


def _views(func: tirx.PrimFunc) -> list[Var]:
    """Return the buffers in a function that lie in others."""
    found: list[Var] = []
    seen = (tirx.DeclBuffer, s_tir.MatchBufferRegion)
    tvm_ffi.structural_walk(func.body, (seen, lambda node: found.append(node.buffer)))
    return found


def _is_wide(var: Var) -> bool:
    return tirx.is_buffer_var(var) and var.ty.data_alignment > dtype_bytes(_dtype(var))


def _realigned(buffer: Var) -> Var:
    kind = buffer.ty
    return tirx.decl_buffer(
        kind.shape,
        kind.dtype,
        buffer.name,
        strides=kind.strides,
        elem_offset=kind.elem_offset,
        scope=kind.storage_scope,
        data_alignment=dtype_bytes(_dtype(buffer)),
        offset_factor=kind.offset_factor,
        layout=kind.layout,
    )


def _dtype(buffer: Var) -> str:
    return str(buffer.ty.dtype.dtype)
