"""Unsigned numbers, of whose literals TVM's simplifier survives no difference below zero.

It subtracts to compare two literals, and in a choice: (c ? x : 0) - 1 becomes c ? x - 1 : 0 - 1.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

from tvm import ir, tirx

_COMPARED = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}


def is_unsigned(value: ir.Expr) -> bool:
    return str(value.ty.dtype).startswith("uint")


def compared(name: str, args: Sequence[ir.Expr]) -> ir.Expr | None:
    """Return a comparison of two unsigned literals, None for whatever else."""
    literals = all(isinstance(arg, tirx.IntImm) and is_unsigned(arg) for arg in args)
    if name not in _COMPARED or not literals:
        return None
    return tirx.IntImm("bool", _COMPARED[name](*(int(arg.value) for arg in args)))
