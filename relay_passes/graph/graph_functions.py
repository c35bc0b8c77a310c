"""The functions of a module that are graphs: neither kernels-to-be nor another backend's."""

from __future__ import annotations

from tvm import ir, relax
from tvm.ir import IRModule


def graph_functions(mod: IRModule) -> list[tuple[ir.GlobalVar, relax.Function]]:
    """Return the Relax functions whose calls a pass may rewrite."""
    return [
        (gvar, func)
        for gvar, func in mod.functions_items()
        if isinstance(func, relax.Function) and not _is_taken(func)
    ]


def _is_taken(func: relax.Function) -> bool:
    return bool(func.attrs) and ("Primitive" in func.attrs or "Codegen" in func.attrs)
