"""Cut a vector loop where a condition on its position changes, so that lanes agree on it.

A padded or concatenated value is `if_then_else(position < n, a, b)`; lanes that disagree would be
run one by one. Between two cuts the condition is a constant.
"""

from __future__ import annotations

import functools

from ...analysis.iteration_space import Atom, Node
from ...kernel_ir.cost import branches
from ...kernel_ir.expr import Axis, AxisRef, Const, Expr, Linear, Load, Op, transform, walk
from ...kernel_ir.index import add, normalize, scaled
from ...kernel_ir.stage import Stage
from .shapes import SHAPES

_COMPARE = ("LT", "LE", "GT", "GE", "EQ", "NE")
_CHOICE = ("call:tirx.if_then_else", "Select")


def cuts(node: Node, atom: Atom) -> list[int] | None:
    """Return positions inside `atom` where conditions change, or None if lanes may disagree."""
    found: set[int] = set()
    if any(_depends(compare, node, atom) for compare in _compared_in_indices(node.stage)):
        return None
    for choice, compares in _choices(node.stage):
        for compare in compares:
            if not _depends(compare, node, atom):
                continue
            linear = _in_atom(compare, node, atom)
            if linear is None:
                if choice == "Select":
                    continue  # both sides are evaluated anyway: a blend
                return None
            found.update(_changes(compare.name, *linear))
    return sorted(c for c in found if 0 < c < atom.extent)


@functools.lru_cache(maxsize=1 << 12)
def select_unrolled(node: Node) -> tuple[Atom, ...]:
    """Return the short atoms whose positions have expressions of their own, chosen by a Select."""
    chains = (e for e in node.stage.operations if len(branches(e)) > 1)
    conditions = [e.args[0] for e in chains]
    return tuple(
        atom
        for atom in node.spatial
        if atom.extent <= SHAPES.guarded
        and any(_in_atom(c, node, atom) is not None for c in conditions)
    )


def resolve(value: Expr, node: Node, atom: Atom, at: int) -> Expr:
    """Return `value` with the conditions on `atom` decided as they are at position `at`."""

    def rule(expr: Expr) -> Expr | None:
        if isinstance(expr, Load):
            return expr
        if isinstance(expr, Op) and expr.name in _COMPARE:
            linear = _in_atom(expr, node, atom)
            if linear is not None:
                stride, const = linear
                return Const(_holds(expr.name, stride * at + const), "bool")
        return None

    return _fold(transform(value, rule))


def difference(compare: Op) -> Linear:
    """Return the left side of a comparison of positions less the right one."""
    left, right = (normalize(arg) for arg in compare.args)
    return add(left, scaled(right, -1))


@functools.lru_cache(maxsize=1 << 12)
def _choices(stage: Stage) -> tuple[tuple[str, tuple[Op, ...]], ...]:
    """Return the choices in a stage's value, each with the comparisons in its condition."""
    choices = (e for e in walk(stage.value) if isinstance(e, Op) and e.name in _CHOICE)
    return tuple((e.name, _comparisons(e.args[0])) for e in choices)


@functools.lru_cache(maxsize=1 << 12)
def _compared_in_indices(stage: Stage) -> tuple[Op, ...]:
    return tuple(e for ld in stage.loads() for i in ld.index for e in _comparisons(i))


def _comparisons(condition: Expr) -> tuple[Op, ...]:
    return tuple(e for e in walk(condition) if isinstance(e, Op) and e.name in _COMPARE)


def _depends(expr: Expr, node: Node, atom: Atom) -> bool:
    for part in walk(expr):
        if isinstance(part, AxisRef):
            if any(a is atom for a, _ in node.digits.get(part.axis, ())):
                return True
        elif isinstance(part, Load) and node.reads[part].stride(atom) != 0:
            return True
    return False


def _in_atom(compare: Op, node: Node, atom: Atom) -> tuple[int, int] | None:
    """Return (stride, const) if left - right is `stride * atom + const`, else None."""
    if not all(a.dtype.startswith("int") for a in compare.args):
        return None
    gap, stride = difference(compare), 0
    for term in gap.terms:
        if not isinstance(term.base, Axis) or not term.extent:
            return None
        digits = node.digits[term.base]
        covered = [
            (a, low) for a, low in digits
            if term.low <= low and low * a.extent <= term.low * term.extent
        ]  # fmt: skip
        if len(covered) != 1 or covered[0][0] is not atom or atom.extent != term.extent:
            return None
        stride += term.scale
    return (stride, gap.const) if stride else None


def _changes(name: str, stride: int, const: int) -> list[int]:
    """Return where the sign of `stride * x + const` changes."""
    below = -const // stride if stride > 0 else const // -stride
    return [below - 1, below, below + 1, below + 2] if name in ("EQ", "NE") else [
        b for b in (below, below + 1, below + 2)
        if _holds(name, stride * b + const) != _holds(name, stride * (b - 1) + const)
    ]  # fmt: skip


def _holds(name: str, gap: int) -> bool:
    return {
        "LT": gap < 0,
        "LE": gap <= 0,
        "GT": gap > 0,
        "GE": gap >= 0,
        "EQ": gap == 0,
        "NE": gap != 0,
    }[name]


def _fold(expr: Expr) -> Expr:
    memo: dict[int, Expr] = {}

    def visit(node: Expr) -> Expr:
        if id(node) not in memo:
            memo[id(node)] = _fold_one(node, visit)
        return memo[id(node)]

    return visit(expr)


def _fold_one(node: Expr, visit) -> Expr:
    if not isinstance(node, Op):
        return node
    args = tuple(visit(a) for a in node.args)
    first = args[0].value if args and isinstance(args[0], Const) else None
    if node.name in _CHOICE and first is not None:
        return args[1] if first else args[2]
    if node.name == "Not" and first is not None:
        return Const(not first, "bool")
    if node.name in ("And", "Or") and node.dtype == "bool":
        absorbing = node.name == "Or"
        for one, other in (args, args[::-1]):
            if isinstance(one, Const):
                return Const(absorbing, "bool") if bool(one.value) == absorbing else other
    return Op(node.name, args, node.dtype, node.extra)
