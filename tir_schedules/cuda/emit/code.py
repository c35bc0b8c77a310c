"""Words of a CUDA kernel in TensorIR: thread loops, barriers, shuffles, local arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import ir, tirx

from ...tensor_ir.numbers import INDEX

_WHOLE_WARP = 0xFFFFFFFF


def number(value: int) -> ir.Expr:
    return tirx.IntImm(INDEX, value)


def bound(var: ir.Var, extent: int, axis: str, body: tirx.Stmt) -> tirx.Stmt:
    """Return a loop whose trips are the threads or blocks of an axis."""
    bind = tirx.IterVar(None, tirx.Var("", INDEX), tirx.IterVar.ThreadIndex, axis)
    kind = tirx.ForKind.THREAD_BINDING
    return tirx.For(var, 0, extent, kind, body, thread_binding=bind)


def unrolled(name: str, extent: int, body: Callable[[ir.Expr], list[tirx.Stmt]]) -> list[tirx.Stmt]:
    """Return what is done at each of some numbers, written out."""
    if extent == 1:
        return body(number(0))
    var = tirx.Var(name, INDEX)
    return [tirx.For(var, 0, extent, tirx.ForKind.UNROLLED, sequence(body(var)))]


def local(name: str, elements: int, dtype: str) -> ir.Var:
    """Return an array of each thread's own, in registers as long as its indices are constants."""
    return tirx.decl_buffer((elements,), dtype, name, scope="local")


def barrier() -> tirx.Stmt:
    """Wait for all threads of the block: they see what others wrote to shared memory."""
    op = ir.Op.get("tirx.tvm_storage_sync")
    return tirx.Evaluate(ir.Call(op, [ir.StringImm("shared")], ret_ty=INDEX))


def from_lane(value: ir.Expr, distance: int) -> ir.Expr:
    """Return the value of the lane whose number differs from one's own in one bit."""
    dtype = str(value.ty.dtype)
    mask = tirx.IntImm("uint32", _WHOLE_WARP)
    return tirx.call_extern(dtype, "__shfl_xor_sync", mask, value, number(distance), number(32))


def sequence(stmts: list[tirx.Stmt]) -> tirx.Stmt:
    if not stmts:
        return tirx.Evaluate(0)
    return stmts[0] if len(stmts) == 1 else tirx.SeqStmt(stmts)


def guarded(condition: ir.Expr | None, stmts: list[tirx.Stmt]) -> list[tirx.Stmt]:
    return stmts if condition is None else [tirx.IfThenElse(condition, sequence(stmts), None)]


def both(conditions: Sequence[ir.Expr]) -> ir.Expr | None:
    """Return whether all hold, None if there is none."""
    out: ir.Expr | None = None
    for condition in conditions:
        out = condition if out is None else tirx.And(out, condition)
    return out
