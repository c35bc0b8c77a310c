"""Integers whose making TVM's analyzer must not see.

TVM binds a variable to a value that it writes twice, and its analyzer aborts at the range of a
comparison of vectors, as at differences below zero of unsigned numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvm import ir, tirx

from ....kernel_ir.expr import Expr, Op
from ....tensor_ir.unsigned import is_unsigned

DIVISIONS = frozenset(("FloorDiv", "FloorMod"))  # that round down
COMPARED = frozenset(("EQ", "NE", "LT", "LE", "GT", "GE"))


def value(shown: ir.Expr) -> ir.Expr:
    """Return an integer as a call. LLVM takes the larger of a value and itself away again."""
    larger = "llvm.umax" if is_unsigned(shown) else "llvm.smax"
    return tirx.call_llvm_pure_intrin(str(shown.ty.dtype), larger, shown, shown)


def positions(args: list[ir.Expr], lane: ir.Var) -> list[ir.Expr]:
    """Return the sides of a comparison, a position that lanes disagree on hidden.

    Of one that stands in two values TVM binds a variable.
    """
    left, right = args
    if str(left.ty.dtype) not in ("int32", "int64") or not _meets(args, lane):
        return args
    return [value(left), right]


def conditions(expr: Op, args: list[ir.Expr]) -> list[ir.Expr]:
    """Return the operands of a division that rounds down, those made of conditions hidden.

    TVM writes the operands twice where it can't tell their signs. Bools that are loaded are
    comparisons too, of bytes.
    """
    return [
        value(arg) if _has_bools(part) else arg for part, arg in zip(expr.args, args, strict=True)
    ]


def _has_bools(expr: Expr) -> bool:
    """Return whether bools are visible in a value: operands of divisions in it are hidden already.

    To hide those again would double them in each division of a chain.
    """
    left, seen = [expr], set[int]()
    while left:
        part = left.pop()
        if part.dtype == "bool":
            return True
        if id(part) not in seen and not (isinstance(part, Op) and part.name in DIVISIONS):
            left.extend(part.kids)
        seen.add(id(part))
    return False


def _meets(values: Iterable[ir.Expr], var: ir.Var) -> bool:
    return any(var.same_as(free) for v in values for free in tirx.analysis.undefined_vars(v))
