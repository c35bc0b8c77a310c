"""The kernels of a graph in their order, and which runs of them touch only memory of their own."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tvm import ir, relax, tirx
from tvm.ir import IRModule

from tir_schedules.kernel_ir.expr import dtype_bytes

from ..graph.graph_functions import graph_functions
from ..memory.lifetimes import is_kernel_call, viewed_by
from ..memory.plan_memory import PLACE
from ..rewrites.weights import static_shape

# A tensor by where it comes from: an input, or a kernel's binding and which of its results.
Root = tuple[relax.Var, int]


def refuse(mod: IRModule) -> str | None:
    """Return why the launches of a module may not be replayed, or None.

    TVM lets all functions have the same arena: one that is called would write over its caller's.
    """
    for gvar, func in graph_functions(mod):
        called = {
            found.name_hint
            for found in inside(func.body, ir.GlobalVar)
            if not isinstance(mod[found], tirx.PrimFunc)
        }
        if called:
            return f"{gvar.name_hint} calls {min(called)}"
        if inside(func.body, relax.If):
            return f"{gvar.name_hint} has branches"
        others = {str(f.global_symbol) for f in inside(func.body, relax.ExternFunc)} - {PLACE}
        if others:
            return f"{gvar.name_hint} calls {min(others)}"
    return None


def inside(body: relax.Expr, kind: type) -> list[relax.Expr]:
    """Return the parts of an expression that are of a class."""
    found = []
    relax.analysis.post_order_visit(
        body, lambda expr: found.append(expr) if isinstance(expr, kind) else None
    )
    return found


@dataclass(frozen=True)
class Moving:
    """A tensor whose memory changes from call to call: an input, or a result of the function.

    `leaf` is the variable that is read from the function, or returned.
    """

    root: Root
    leaf: relax.Var
    bytes: int


class Runs:
    """What each step of a function touches of inputs and results; None of a step that is no kernel.

    `inputs` and `results` are tensors that could be copied from and to memory of its own.
    """

    def __init__(self, func: relax.Function) -> None:
        self._roots: dict[relax.Var, Root] = {}
        self._bound: dict[relax.Var, relax.Expr] = {}
        count = func.attrs.get("num_input") if func.attrs else None
        params = func.params if count is None else func.params[: int(count)]
        for param in params:
            self._roots[param] = (param, 0)
        steps = [step for b in func.body.blocks for x in b.bindings for step in self._step(x)]
        self.inputs = [m for p in params if (m := _moving((p, 0), p)) is not None]
        self.results = self._results(func.body.body)
        moving = {each.root for each in (*self.inputs, *self.results)}
        moving |= {(param, 0) for param in params}
        self._touched = [None if step is None else step & moving for step in steps]

    def launches(self, staged: Collection[Root]) -> int:
        """Return how many launches these are, a run of kernels one, if `staged` do not move."""
        launched, runs = 0, False
        for touched in self._touched:
            if touched is not None and not touched - set(staged):
                launched, runs = launched + (not runs), True
            else:
                launched, runs = launched + 1, False
        return launched

    def _step(self, binding: relax.Binding) -> list[frozenset[Root] | None]:
        var, value = binding.var, binding.value
        self._bound[var] = value
        if is_kernel_call(value):
            read = {self._roots[a] for a in value.args[1].fields if a in self._roots}
            fields = len(var.ty.fields) if isinstance(var.ty, relax.TupleType) else 1
            self._roots[var] = (var, 0)
            return [frozenset(read | {(var, n) for n in range(fields)})]
        if isinstance(value, relax.TupleGetItem):
            self._roots[var] = (value.tuple_value, int(value.index))
            return []
        if (viewed := viewed_by(value)) is not None:
            if viewed in self._roots:
                self._roots[var] = self._roots[viewed]
            return []
        return [] if isinstance(value, relax.Tuple | ir.Constant) else [None]

    def _results(self, body: relax.Expr) -> list[Moving]:
        value = self._bound.get(body, body)
        leaves: Sequence[relax.Expr] = value.fields if isinstance(value, relax.Tuple) else [body]
        found: dict[Root, Moving] = {}
        for leaf in leaves:
            root = self._roots.get(leaf) if isinstance(leaf, relax.Var) else None
            if root is None or root[0] not in self._bound:
                continue  # an input as it came, or a weight
            if root not in found and (made := _moving(root, leaf)) is not None:
                found[root] = made
        return list(found.values())


def _moving(root: Root, leaf: relax.Var) -> Moving | None:
    """Return a tensor of known shape that has elements."""
    shape = static_shape(leaf)
    if shape is None or not math.prod(shape):
        return None
    return Moving(root, leaf, math.prod(shape) * dtype_bytes(str(leaf.ty.dtype)))
