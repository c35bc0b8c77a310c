"""The functions of a module that are graphs: neither kernels-to-be nor another backend's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tvm import ir, relax
from tvm.ir import IRModule


class GraphRewriter(Protocol):
    """A mutator of one graph; `found` says whether there was something to change."""

    found: bool
    builder_: relax.BlockBuilder

    def visit_expr(self, expr: relax.Expr) -> relax.Expr: ...


def graph_functions(mod: IRModule) -> list[tuple[ir.GlobalVar, relax.Function]]:
    """Return the Relax functions whose calls a pass may rewrite."""
    return [
        (gvar, func)
        for gvar, func in mod.functions_items()
        if isinstance(func, relax.Function) and not _is_taken(func)
    ]


def rewritten(
    mod: IRModule, rewriter: Callable[[IRModule, relax.Function], GraphRewriter]
) -> IRModule:
    """Return the module with each graph as a rewriter of its own makes it, and without dead ends.

    A graph in which it finds nothing is left as it is.
    """
    for gvar, func in graph_functions(mod):
        one = rewriter(mod, func)
        body = one.visit_expr(func)
        if one.found:
            one.builder_.update_func(gvar, relax.analysis.remove_all_unused(body))
            mod = one.builder_.get()
    return mod


def _is_taken(func: relax.Function) -> bool:
    return bool(func.attrs) and ("Primitive" in func.attrs or "Codegen" in func.attrs)
