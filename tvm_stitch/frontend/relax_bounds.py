"""The range of integer inputs that index an axis, for models that came as Relax."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax, tirx

# Operators that keep the values of their first argument.
PRESERVING = {f"relax.{name}" for name in ("astype", "broadcast_to", "expand_dims", "flatten",
              "permute_dims", "reshape", "squeeze", "strided_slice", "tile", "concat")}  # fmt: skip


def bound_takes(main: relax.Function, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return [0, extent - 1] for each input that relax.take reads as indices, the tightest."""
    bindings = {b.var: b.value for block in main.body.blocks for b in block.bindings
                if isinstance(b, relax.VarBinding)}  # fmt: skip
    inputs = dict(zip(main.params, names, strict=False))
    bounds: dict[str, tuple[int, int]] = {}
    for value in bindings.values():
        extent = _taken_extent(value)
        if extent is not None:
            for source in _sources(value.args[1], bindings):
                if source in inputs:
                    had = bounds.get(inputs[source], (0, extent - 1))
                    bounds[inputs[source]] = (0, min(had[1], extent - 1))
    return bounds


def _taken_extent(value: relax.Expr) -> int | None:
    if not isinstance(value, relax.Call) or getattr(value.op, "name", "") != "relax.take":
        return None
    shape = value.args[0].ty.shape
    axis = value.attrs.axis
    if not isinstance(shape, relax.ShapeExpr) or (axis is None and len(shape) != 1):
        return None
    extent = shape.values[0 if axis is None else int(axis)]
    return int(extent) if isinstance(extent, tirx.IntImm) else None


def _sources(expr: relax.Expr, bindings: dict[relax.Var, relax.Expr]) -> list[relax.Expr]:
    """Return where values come from, through operators that keep them."""
    if expr in bindings:
        return _sources(bindings[expr], bindings)
    if isinstance(expr, relax.Tuple):
        return [source for item in expr.fields for source in _sources(item, bindings)]
    if isinstance(expr, relax.Call) and getattr(expr.op, "name", "") in PRESERVING:
        return _sources(expr.args[0], bindings)
    return [expr]
