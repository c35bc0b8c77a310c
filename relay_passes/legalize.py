"""How Relax ops become TensorIR where TVM's own way is wrong or narrow."""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax

Legalizer = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]
LEGALIZATIONS: dict[str, Legalizer] = {}
