"""Index expressions as mixed-radix sums, so that reshapes and transposes become visible.

`((i * 768 + j) // 64) % 12` is `(j // 64) % 12`: this file finds that. What it can't express (a
gathered row number, a division that leaves a remainder) stays as an opaque term.
"""

from __future__ import annotations

from .expr import Axis, AxisRef, Const, Expr, Linear, Op, Term

_UNKNOWN = 0  # the extent of a term whose range is not known


def normalize(expr: Expr) -> Linear:
    """Return `expr` as a `Linear`; opaque sub-expressions become terms of unknown extent."""
    if expr.linear is None:
        expr.linear = _normalize(expr)
    return expr.linear


def _normalize(expr: Expr) -> Linear:
    if isinstance(expr, Const):
        return Linear(int(expr.value))
    if isinstance(expr, AxisRef):
        if expr.axis.extent == 1:
            return Linear()
        return Linear(0, (Term(1, expr.axis, 1, expr.axis.extent),))
    if isinstance(expr, Op):
        out = _normalize_op(expr)
        if out is not None:
            return out
    return Linear(0, (Term(1, expr, 1, _UNKNOWN),))


def _normalize_op(expr: Op) -> Linear | None:
    if expr.name == "Cast" and expr.dtype.startswith("int"):
        source = expr.args[0].dtype
        return normalize(expr.args[0]) if source.startswith("int") else None
    if expr.name not in ("Add", "Sub", "Mul", "FloorDiv", "FloorMod", "Div", "Mod"):
        return None
    if not expr.dtype.startswith("int"):
        return None
    left, right = (normalize(a) for a in expr.args)
    if expr.name == "Add":
        return add(left, right)
    if expr.name == "Sub":
        return add(left, scaled(right, -1))
    if expr.name == "Mul":
        if not right.terms:
            return scaled(left, right.const)
        return scaled(right, left.const) if not left.terms else None
    if right.terms or right.const <= 0:
        return None
    parts = divide(left, right.const)
    if parts is None:
        return None
    return parts[0] if expr.name in ("FloorDiv", "Div") else parts[1]


def scaled(value: Linear, factor: int) -> Linear:
    if factor == 0:
        return Linear()
    terms = tuple([Term(t.scale * factor, t.base, t.low, t.extent) for t in value.terms])
    return Linear(value.const * factor, terms)


def add(left: Linear, right: Linear) -> Linear:
    """Return the sum, with equal and adjacent pieces of one base merged."""
    merged: dict[tuple[object, int, int], int] = {}
    for term in (*left.terms, *right.terms):
        key = (term.base, term.low, term.extent)
        merged[key] = merged.get(key, 0) + term.scale
    terms = [Term(s, base, low, ext) for (base, low, ext), s in merged.items() if s]
    return Linear(left.const + right.const, tuple(_join(terms)))


def _join(terms: list[Term]) -> list[Term]:
    """Merge `s*e*(x // (l*e)) + s*((x // l) % e)` into `s*(x // l)`."""
    terms = sorted(terms, key=lambda t: -abs(t.scale))
    changed = True
    while changed:
        changed = False
        for outer in terms:
            for inner in terms:
                if (
                    inner is not outer
                    and inner.base is outer.base
                    and inner.extent
                    and outer.extent
                    and outer.low == inner.low * inner.extent
                    and outer.scale == inner.scale * inner.extent
                ):
                    joined = inner._replace(extent=inner.extent * outer.extent)
                    terms = [t for t in terms if t is not inner and t is not outer] + [joined]
                    changed = True
                    break
            if changed:
                break
    return sorted(terms, key=lambda t: -abs(t.scale))


def divide(value: Linear, divisor: int) -> tuple[Linear, Linear] | None:
    """Return (quotient, remainder) of a non-negative value, or None if they are not linear."""
    if divisor == 1:
        return value, Linear()
    if value.const < 0 or any(t.extent == _UNKNOWN or t.scale < 0 for t in value.terms):
        return None
    whole: list[Term] = []
    rest: list[Term] = []
    for term in value.terms:
        if term.scale % divisor == 0:
            whole.append(term._replace(scale=term.scale // divisor))
            continue
        cut = divisor // term.scale if divisor % term.scale == 0 else 0
        if cut and term.extent > cut and term.extent % cut == 0:
            outer = Term(1, term.base, term.low * cut, term.extent // cut)
            whole.append(outer)
            rest.append(term._replace(extent=cut))
        else:
            rest.append(term)
    left_over = value.const % divisor
    if left_over + sum(t.scale * (t.extent - 1) for t in rest) >= divisor:
        return None
    quotient = add(Linear(value.const // divisor), Linear(0, tuple(whole)))
    return quotient, add(Linear(left_over), Linear(0, tuple(rest)))


def bounds(value: Linear) -> tuple[int, int] | None:
    """Return the inclusive range of `value`, or None if a term's range is unknown."""
    low = high = value.const
    for term in value.terms:
        if term.extent == _UNKNOWN:
            return None
        reach = term.scale * (term.extent - 1)
        low, high = low + min(0, reach), high + max(0, reach)
    return low, high


def to_expr(value: Linear) -> Expr:
    """Return `value` as an integer expression again."""
    out: Expr | None = None
    for term in value.terms:
        piece: Expr
        if isinstance(term.base, Axis):
            piece = AxisRef(term.base)
            if term.low != 1:
                piece = Op("FloorDiv", (piece, Const(term.low, "int64")), "int64")
            if term.low * term.extent < term.base.extent:
                piece = Op("FloorMod", (piece, Const(term.extent, "int64")), "int64")
        else:
            piece = term.base
            if piece.dtype != "int64":
                piece = Op("Cast", (piece,), "int64")
        if term.scale != 1:
            piece = Op("Mul", (piece, Const(term.scale, "int64")), "int64")
        out = piece if out is None else Op("Add", (out, piece), "int64")
    if out is None:
        return Const(value.const, "int64")
    if value.const:
        out = Op("Add", (out, Const(value.const, "int64")), "int64")
    return out


def canonical(expr: Expr) -> Expr:
    """Return an index expression in normal form (so that equal indices compare equal)."""
    return to_expr(normalize(expr))
