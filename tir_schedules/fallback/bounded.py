"""Keep indices that tensors hold inside their buffers, whatever the tensors hold."""

from __future__ import annotations

from collections.abc import Sequence

import tvm_ffi
from tvm import ir, s_tir, sym, tirx
from tvm_ffi.structural import VisitInterrupt


def bounded(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Clamp each index that depends on a tensor's elements and is not proven to be inside.

    rewrite: y[k] = x[i[k]]
          -> y[k] = x[T.max(T.min(i[k], extent - 1), 0)]
    What is read of a tensor without elements is 0, and nothing is written to one.
    """
    clamps = _Clamps(_decided(func.body))
    callbacks = [(ir.TensorLoad, clamps.load), (tirx.BufferStore, clamps.store)]
    return func.with_body(tvm_ffi.structural_map(func.body, callbacks, order="post"))


class _Clamps:
    def __init__(self, decided: set[ir.Var]) -> None:
        self._decided, self._analyzer = decided, sym.Analyzer()

    def load(self, load: ir.TensorLoad) -> ir.Expr:
        outside = self._outside(load.indices, load.source)
        if not outside:
            return load
        if any(_is_zero(load.source.ty.shape[axis]) for axis in outside):
            return tirx.const(0, load.ty.dtype)
        return tirx.BufferLoad(load.source, _clamped(load.indices, load.source, outside))

    def store(self, store: tirx.BufferStore) -> tirx.Stmt:
        outside = self._outside(store.indices, store.buffer)
        if not outside:
            return store
        if any(_is_zero(store.buffer.ty.shape[axis]) for axis in outside):
            return tirx.Evaluate(0)
        indices = _clamped(store.indices, store.buffer, outside)
        return tirx.BufferStore(store.buffer, store.value, indices)

    def _outside(self, indices: Sequence[ir.Expr], buffer: ir.Var) -> list[int]:
        """Return the axes whose index a tensor decides and may decide to be out of range."""
        pairs = enumerate(zip(indices, buffer.ty.shape, strict=True))
        return [
            axis
            for axis, (index, extent) in pairs
            if _depends(index, self._decided) and not self._is_inside(index, extent)
        ]

    def _is_inside(self, index: ir.Expr, extent: ir.Expr) -> bool:
        known = self._analyzer.const_int_bound(index)
        return (
            isinstance(extent, tirx.IntImm)
            and known.min_value >= 0
            and known.max_value < int(extent)
        )


def _clamped(indices: Sequence[ir.Expr], buffer: ir.Var, axes: list[int]) -> list[ir.Expr]:
    clamped = list(indices)
    for axis in axes:
        # Narrow and unsigned types may not hold the extent, or its negative.
        dtype = "int32" if str(clamped[axis].ty.dtype) == "int32" else "int64"
        index, extent = tirx.Cast(dtype, clamped[axis]), buffer.ty.shape[axis]
        if isinstance(extent, tirx.IntImm):
            last = tirx.const(min(int(extent) - 1, int(tirx.max_value(dtype))), dtype)
        else:
            last = tirx.Cast(dtype, extent) - tirx.const(1, dtype)
        clamped[axis] = tirx.max(tirx.min(index, last), tirx.const(0, dtype))
    return clamped


def _decided(body: tirx.Stmt) -> set[ir.Var]:
    """Return the variables whose values, or the ranges of whose values, tensors decide."""
    found: set[ir.Var] = set()

    def note(var: ir.Var, *by: ir.Expr) -> None:
        if any(_depends(expr, found) for expr in by):
            found.add(var)

    def loop(stmt: tirx.For) -> None:
        note(stmt.loop_var, stmt.min, stmt.extent)

    def block(realize: s_tir.SBlockRealize) -> None:
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            note(axis.var, axis.dom.min, axis.dom.extent, value)

    def bound(node: tirx.Bind | tirx.Let) -> None:
        note(node.var, node.value)

    callbacks = [(tirx.For, loop), (s_tir.SBlockRealize, block), ((tirx.Bind, tirx.Let), bound)]
    tvm_ffi.structural_walk(body, callbacks, order="pre")
    return found


def _depends(expr: ir.Expr, decided: set[ir.Var]) -> bool:
    """Return whether an expression reads a tensor, or a variable that one decides."""

    def stop(node: ir.Expr) -> VisitInterrupt | None:
        read = isinstance(node, ir.TensorLoad) or node in decided
        return VisitInterrupt(node) if read else None

    return tvm_ffi.structural_walk(expr, [((ir.TensorLoad, ir.Var), stop)]) is not None


def _is_zero(extent: ir.Expr) -> bool:
    return isinstance(extent, tirx.IntImm) and int(extent) == 0
