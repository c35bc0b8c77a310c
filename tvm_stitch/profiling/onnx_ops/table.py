"""The table: each ONNX op with its torch and its jax.numpy column.

A row is a function of (node, operands). Rows that need nothing of the framework but Python's
operators and `reshape` are the same in both columns and stand here; the others stand in the
column's own file.
"""

from __future__ import annotations

from .graph import Column, Row
from .shapes import flattened, reshaped, squeezed, unsqueezed

SHARED: dict[str, Row] = {
    "Add": lambda n, a, b: a + b,
    "Dropout": lambda n, x, *_: x,
    "Equal": lambda n, a, b: a == b,
    "Flatten": lambda n, x: x.reshape(flattened(x.shape, n.get("axis", 1))),
    "Greater": lambda n, a, b: a > b,
    "GreaterOrEqual": lambda n, a, b: a >= b,
    "Identity": lambda n, x: x,
    "Less": lambda n, a, b: a < b,
    "LessOrEqual": lambda n, a, b: a <= b,
    "Mul": lambda n, a, b: a * b,
    "Neg": lambda n, x: -x,
    "Not": lambda n, x: ~x,
    "Reciprocal": lambda n, x: 1 / x,
    "Reshape": lambda n, x, s: x.reshape(reshaped(x.shape, s, bool(n.get("allowzero")))),
    "Softsign": lambda n, x: x / (1 + abs(x)),
    "Squeeze": lambda n, x, axes=None: x.reshape(squeezed(x.shape, n.axes(axes))),
    "Sub": lambda n, a, b: a - b,
    "Unsqueeze": lambda n, x, axes=None: x.reshape(unsqueezed(x.shape, n.axes(axes))),
}


def torch_column() -> Column:
    """Return the op functions over torch tensors."""
    from .torch_column import OPS, constant

    return Column({**SHARED, **OPS}, constant)


def jax_column() -> Column:
    """Return the op functions over jax arrays."""
    from .jax_column import OPS, constant

    return Column({**SHARED, **OPS}, constant)
