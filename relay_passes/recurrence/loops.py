"""The loops of a dataflow block: what stands between their markers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import ir, relax

from .markers import Marker, marker_of


@dataclass(frozen=True)
class Loop:
    """One loop: its markers' bindings, `body` in program order, and what that reads from outside.

    Operands of `end` are the states behind a step, as many as there are carries, then its results.
    """

    each: tuple[relax.VarBinding, ...]
    carries: tuple[relax.VarBinding, ...]
    end: relax.VarBinding
    body: tuple[relax.VarBinding, ...]
    fixed: tuple[relax.Var, ...]

    @property
    def steps(self) -> int:
        return marker_of(self.end.value).number

    @property
    def results(self) -> list[relax.Expr]:
        return operands(self.end)

    def backwards(self, binding: relax.VarBinding) -> tuple[bool, ...]:
        return marker_of(binding.value).backwards


def operands(binding: relax.VarBinding) -> list[relax.Expr]:
    """Return the operands of a marker."""
    args = binding.value.args[1]
    return list(args.fields) if isinstance(args, relax.Tuple) else [args]


def first_loop(bindings: Sequence[relax.Binding]) -> Loop | None:
    """Return the loop that ends first: an inner one before that around it."""
    markers = [(b, _marker(b)) for b in bindings]
    end = next((b for b, m in markers if m is not None and m.kind == "end"), None)
    if end is None:
        return None
    name = _marker(end).loop
    mine = [(b, m) for b, m in markers if m is not None and m.loop == name]
    each = tuple(b for b, m in mine if m.kind == "each")
    carries = sorted((b for b, m in mine if m.kind == "carry"), key=lambda b: _marker(b).number)
    body = _between(bindings, {b.var for b in (*each, *carries)}, end)
    inside = {b.var for b in (*each, *carries, *body)}
    read = dict.fromkeys(v for b in body for v in relax.analysis.free_vars(b.value))
    fixed = tuple(v for v in read if v not in inside and not isinstance(v, ir.GlobalVar))
    return Loop(each, tuple(carries), end, body, fixed)


def _between(
    bindings: Sequence[relax.Binding], starts: set[relax.Var], end: relax.VarBinding
) -> tuple[relax.VarBinding, ...]:
    """Return what depends on the markers at the start and is needed at the end."""
    reached, inside = set(starts), []
    for binding in bindings:
        if binding.var in starts or binding.var is end.var:
            continue
        if any(v in reached for v in relax.analysis.free_vars(binding.value)):
            reached.add(binding.var)
            inside.append(binding)
    needed = set(relax.analysis.free_vars(end.value))
    kept = []
    for binding in reversed(inside):
        if binding.var in needed:
            needed |= set(relax.analysis.free_vars(binding.value))
            kept.append(binding)
    return tuple(reversed(kept))


def _marker(binding: relax.Binding) -> Marker | None:
    return marker_of(binding.value) if isinstance(binding, relax.VarBinding) else None
