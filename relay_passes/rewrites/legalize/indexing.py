"""Gathers and scatters that stay inside their tensors, whatever the indices, and in one order.

TVM's own go anywhere, take the strides of the data for those of smaller indices, and let threads
race where `index_put` meets an element twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from tvm import ir, relax, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tir_schedules.vector_math import nan_max, nan_min

Combine = Callable[[ir.Expr, ir.Expr], ir.Expr]
COMBINES: dict[str, Combine] = {
    "update": lambda _old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "mean": lambda old, new: (old + new) / 2,
    "min": nan_min,
    "max": nan_max,
}


def index_tensor(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """rewrite: out[i, .., j, ..] = data[indices[0][i, ..], indices[1][i, ..], .., j, ..]

    Indices are broadcast as NumPy's.
    """
    indices = fields(call.args[1])

    def compute(data: te.Tensor, *indices: te.Tensor) -> te.Tensor:
        rows = broadcast([index.shape for index in indices])

        def element(*at: ir.Expr) -> ir.Expr:
            chosen = [
                inside(index(*along(index.shape, at[: len(rows)])), extent)
                for index, extent in zip(indices, data.shape, strict=False)
            ]
            return data(*chosen, *at[len(rows) :])

        return te.compute([*rows, *data.shape[len(indices) :]], element)

    return builder.call_te(compute, call.args[0], *indices, primfunc_name_hint="index_tensor")


def scatter_elements(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """rewrite: out[.., indices[.., k, ..], ..] = combine(out[..], updates[.., k, ..])"""
    axis = int(call.attrs.axis) % call.args[0].ty.ndim

    def fill(data: ir.Var, indices: ir.Var, updates: ir.Var, out: ir.Var) -> None:
        shape = list(indices.ty.shape)
        rows = shape[:axis] + shape[axis + 1 :]
        # Rows store apart: other axes of the result are those of the indices.
        with T.parallel(0, math.prod(rows)) as row, T.serial(0, shape[axis]) as k:
            apart = unravelled(row, rows)
            at = (*apart[:axis], k, *apart[axis:])
            chosen = inside(indices[at], data.ty.shape[axis])
            place = [*apart[:axis], chosen, *apart[axis:]]
            _store(out, place, str(call.attrs.reduction), updates[at])

    return _scatter(builder, call, call.args, fill)


def scatter_nd(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """rewrite: out[(*indices[i, .., :], j, ..)] = combine(out[..], updates[i, .., j, ..])"""

    def fill(data: ir.Var, indices: ir.Var, updates: ir.Var, out: ir.Var) -> None:
        *rows, columns = indices.ty.shape
        extents = list(data.ty.shape)
        rest = extents[int(columns) :]
        with T.serial(0, math.prod(rows)) as row, T.serial(0, math.prod(rest)) as element:
            at, slot = unravelled(row, rows), unravelled(element, rest)
            chosen = [inside(indices[(*at, c)], extents[c]) for c in range(int(columns))]
            _store(out, [*chosen, *slot], str(call.attrs.reduction), updates[(*at, *slot)])

    return _scatter(builder, call, call.args, fill)


def index_put(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """rewrite: out[indices[0][i, ..], indices[1][i, ..], .., j, ..] (+)= values[i, .., j, ..]

    Indices and values are broadcast as NumPy's.
    """
    data, given, values = call.args
    indices = fields(given)

    def fill(data: ir.Var, *others: ir.Var) -> None:
        *indices, values, out = others
        rows = broadcast([index.ty.shape for index in indices])
        extents = list(data.ty.shape)
        rest = extents[len(indices) :]
        with T.serial(0, math.prod(rows)) as row, T.serial(0, math.prod(rest)) as element:
            at, slot = unravelled(row, rows), unravelled(element, rest)
            chosen = [
                inside(index[along(index.ty.shape, at)], extent)
                for index, extent in zip(indices, extents, strict=False)
            ]
            value = values[along(values.ty.shape, [*at, *slot])]
            _store(out, [*chosen, *slot], "add" if call.attrs.accumulate else "update", value)

    return _scatter(builder, call, [data, *indices, values], fill)


def inside(index: ir.Expr, extent: ir.Expr) -> ir.Expr:
    """Return an index as an int64 from 0 to extent - 1; negative ones count from the end."""
    wide, size = tirx.Cast("int64", index), tirx.Cast("int64", extent)
    zero, one = tirx.IntImm("int64", 0), tirx.IntImm("int64", 1)
    from_start = tirx.Select(wide < zero, wide + size, wide)
    return tirx.max(tirx.min(from_start, size - one), zero)


def _scatter(
    builder: relax.BlockBuilder,
    call: relax.Call,
    arguments: Sequence[relax.Expr],
    fill: Callable[..., None],
) -> relax.Expr:
    """Emit a kernel that copies the first argument and lets `fill` store into the copy."""
    name = call.op.name.rpartition(".")[2]

    def body(ins: Sequence[ir.Var], out: ir.Var) -> tirx.Stmt:
        return tirx.SeqStmt([_built(_copy, ins[0], out), _built(fill, *ins, out)])

    def compute(*tensors: te.Tensor) -> te.Tensor:
        placed = [tirx.decl_buffer(t.shape, t.dtype, t.op.name, layout=None) for t in tensors]
        out = tirx.decl_buffer(tensors[0].shape, tensors[0].dtype, name, layout=None)
        return te.extern(
            [out.ty.shape],
            list(tensors),
            lambda ins, outs: body(ins, outs[0]),
            name=name,
            in_buffers=placed,
            out_buffers=[out],
        )

    return builder.call_te(compute, *arguments, primfunc_name_hint=name)


def _built(write: Callable[..., None], *buffers: ir.Var) -> tirx.Stmt:
    with IRBuilder() as statement:
        write(*buffers)
        return statement.get()


def _copy(data: ir.Var, out: ir.Var) -> None:
    extents = list(out.ty.shape)
    with T.parallel(0, math.prod(extents)) as flat:
        at = unravelled(flat, extents)
        T.buffer_store(out, data[tuple(at)], at)


def _store(out: ir.Var, place: list[ir.Expr], reduction: str, value: ir.Expr) -> None:
    T.buffer_store(out, COMBINES[reduction](out[tuple(place)], value), place)


def unravelled(flat: ir.Expr, shape: Sequence[ir.Expr | int]) -> list[ir.Expr]:
    """Return the position along each axis of an element given by its row-major number."""
    at: list[ir.Expr] = []
    for extent in list(shape)[:0:-1]:
        at.append(flat % extent)
        flat = flat // extent
    return [flat, *at[::-1]] if shape else []


def broadcast(shapes: Sequence[Sequence[ir.Expr]]) -> list[int]:
    return list(np.broadcast_shapes(*([int(extent) for extent in shape] for shape in shapes)))


def along(shape: Sequence[ir.Expr], at: Sequence[ir.Expr]) -> tuple[ir.Expr, ...]:
    """Return where a tensor of that shape, broadcast, has what stands at a position."""
    own = at[len(at) - len(shape) :]
    zero = tirx.IntImm("int64", 0)
    return tuple(
        zero if int(extent) == 1 else place for place, extent in zip(own, shape, strict=True)
    )


def fields(given: relax.Expr) -> list[relax.Expr]:
    if isinstance(given, relax.Tuple):
        return list(given.fields)
    return [relax.TupleGetItem(given, n) for n in range(len(given.ty.fields))]
