"""What reductions begin with."""

from __future__ import annotations

from tvm import ir

from ..kernel_ir.stage import Reduction
from .numbers import constant


def identity(rule: Reduction, dtype: str) -> ir.Expr:
    return constant(rule.start(dtype), dtype)
