"""Which node of the user's model each binding comes from.

Passes make new calls, and keep the variable that a rewritten call was bound to: the variable's name
is what lasts. So each binding of an imported function gets a name of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

_NAME = re.compile(r"node\d+")


def name_bindings(
    main: relax.Function, made: Iterable[tuple[relax.Expr, str]]
) -> tuple[relax.Function, dict[str, str]]:
    """Return `main` with a name for each variable, and the model's own node behind each name.

    `made` pairs what an importer made of a node with the node: the expression that a variable is
    bound to, or the variable. What lies between belongs to the node that reads it first.

    rewrite: lv = exp(x); lv1 = add(lv, x)   ->   node0 = exp(x); node1 = add(node0, x)
    """
    nodes = {expr.__chandle__(): node for expr, node in made}
    bindings = [binding for block in main.body.blocks for binding in block.bindings]
    found: dict[relax.Var, str] = {}
    for binding in bindings:
        for expr in (binding.var, getattr(binding, "value", None)):
            if expr is not None and expr.__chandle__() in nodes:
                found[binding.var] = nodes[expr.__chandle__()]
    _inherit(bindings, found)
    namer = _Namer({binding.var: f"node{number}" for number, binding in enumerate(bindings)})
    body = namer.visit_expr(main.body)
    named = relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)
    return named, {namer.names[var]: node for var, node in found.items()}


def origin_of(name: str, origins: Mapping[str, str]) -> str | None:
    """Return the node behind a variable's name, to which passes append numbers, None if unknown."""
    found = _NAME.match(name)
    return origins.get(found[0]) if found else None


def _inherit(bindings: list[relax.Binding], found: dict[relax.Var, str]) -> None:
    """Give bindings without a node that of their first reader; what only gathers has none."""
    readers: dict[relax.Var, str] = {}
    for binding in reversed(bindings):
        value = getattr(binding, "value", None)
        if binding.var not in found and binding.var in readers:
            found[binding.var] = readers[binding.var]
        if value is not None and binding.var in found:
            for var in relax.analysis.free_vars(value):
                readers[var] = found[binding.var]


@mutator
class _Namer(PyExprMutator):
    """Renames variables; those in the bodies of If keep their names."""

    def __init__(self, names: dict[relax.Var, str]) -> None:
        super().__init__()
        self.names = names

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        var = binding.var
        if var not in self.names:
            super().visit_var_binding_(binding)
            return
        value = self.visit_expr(binding.value)
        kind = relax.DataflowVar if isinstance(var, relax.DataflowVar) else relax.Var
        renamed = kind(self.names[var], value.ty)
        self.set_var_remap(var, renamed)
        self.builder_.emit_normalized(relax.VarBinding(renamed, value))
