"""What lowered TensorIR shows of a kernel: regions, nests, buffers, lanes."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence

from tvm import ir, tirx

from tir_schedules.device import CpuDevice

CROSSING_BYTES = 64 << 10  # what may cross a barrier: row statistics and partial sums


def statements(stmt: tirx.Stmt, inside: tuple = ()) -> Iterator[tuple[tirx.Stmt, tuple]]:
    """Yield every statement under `stmt`, itself included, with those that enclose it."""
    yield stmt, inside
    for child in _children(stmt):
        yield from statements(child, (*inside, stmt))


def _children(stmt: tirx.Stmt) -> Sequence[tirx.Stmt]:
    kind = type(stmt).__name__
    if kind == "SeqStmt":
        return list(stmt.seq)
    if kind == "IfThenElse":
        return [s for s in (stmt.then_case, stmt.else_case) if s is not None]
    if kind == "SBlockRealize":
        return [stmt.block]
    if kind == "SBlock":
        return [s for s in (stmt.init, stmt.body) if s is not None]
    if kind in ("For", "AttrStmt", "While"):
        return [stmt.body]
    if kind in ("AllocBuffer", "DeclBuffer", "Bind", "BufferStore", "Evaluate", "AssertStmt"):
        return []
    raise AssertionError(f"statement {kind} is new to this walk")


def is_launch(stmt: tirx.Stmt) -> bool:
    return isinstance(stmt, tirx.AttrStmt) and "parallel_launch_point" in stmt.attr_key


def is_parallel(stmt: tirx.Stmt) -> bool:
    return isinstance(stmt, tirx.For) and stmt.kind == tirx.ForKind.PARALLEL


def is_vector(stmt: tirx.Stmt) -> bool:
    return isinstance(stmt, tirx.For) and stmt.kind == tirx.ForKind.VECTORIZED


def ways(body: tirx.Stmt) -> list[tirx.Stmt]:
    """Return what a kernel may do behind the checks that choose between its ways."""
    for stmt, inside in statements(body):
        alone = not any(is_launch(s) or isinstance(s, tirx.For) for s in inside)
        if alone and isinstance(stmt, tirx.IfThenElse) and stmt.else_case is not None:
            return [*ways(stmt.then_case), *ways(stmt.else_case)]
    return [body]


def regions(body: tirx.Stmt) -> list[tirx.Stmt]:
    """Return the parallel regions: launch points, and parallel loops outside any."""
    return [
        stmt
        for stmt, inside in statements(body)
        if (is_launch(stmt) or is_parallel(stmt))
        and not any(is_launch(s) or is_parallel(s) for s in inside)
    ]


def nests(body: tirx.Stmt) -> list[tirx.Stmt]:
    """Return the outermost loop nests, a launch point being one."""
    return [
        stmt
        for stmt, inside in statements(body)
        if (is_launch(stmt) or isinstance(stmt, tirx.For))
        and not any(is_launch(s) or isinstance(s, tirx.For) for s in inside)
    ]


def buffer_bytes(buffer: ir.Var) -> int:
    return _elements(buffer) * max(1, buffer.ty.dtype.dtype.itemsize)


def _elements(buffer: ir.Var) -> int:
    return math.prod(int(d) for d in buffer.ty.shape)


def assert_stitched(func: tirx.PrimFunc, cpu: CpuDevice) -> None:
    """Assert both clauses of the definition of a stitched kernel, on its TensorIR.

    One outermost nest or one launch point (a kernel too small to be parallel may be one tile with
    no loop around it), and no intermediate larger than its tile: what stands outside the tasks is
    row statistics, or one partial result a task of something the kernel makes. A kernel that
    checks its operands first runs one way or the other: each is such a kernel.
    """
    for body in ways(func.body):
        _assert_way(body, func, cpu)


def _assert_way(body: tirx.Stmt, func: tirx.PrimFunc, cpu: CpuDevice) -> None:
    found = regions(body)
    assert len(found) <= 1, f"{len(found)} parallel regions"
    if found:
        assert len(nests(body)) == 1, "a loop stands beside the parallel region"
    tasks = {
        int(s.extent) for s, _ in statements(body) if is_parallel(s)
    } | {1}  # fmt: skip
    shared: list[ir.Var] = []
    tile = 0
    for stmt, inside in statements(body):
        if isinstance(stmt, tirx.AllocBuffer):
            if found and not any(is_parallel(s) for s in inside):
                shared.append(stmt.buffer)
            else:
                tile += buffer_bytes(stmt.buffer)
        shared += list(getattr(stmt, "alloc_buffers", ()))
    whole = {_elements(b) for b in (*func.params, *shared)}
    crossing = [b for b in shared if not _is_partial(b, tasks, whole)]
    assert sum(map(buffer_bytes, crossing)) <= CROSSING_BYTES, [b.name for b in crossing]
    assert sum(map(buffer_bytes, shared)) <= cpu.l2_bytes, [b.name for b in shared]
    assert tile <= cpu.l2_bytes, f"tile buffers of {tile} bytes"


def _is_partial(buffer: ir.Var, tasks: set[int], whole: set[int]) -> bool:
    """Return whether the buffer is one copy a task of a tensor that the kernel makes."""
    count = _elements(buffer)
    return any(count % n == 0 and count // n in whole for n in tasks if n > 1)


def scalar_contiguous(func: tirx.PrimFunc, extent: int = 16) -> list[str]:
    """Return innermost serial loops of `extent` or more that store or load contiguously."""
    out = []
    for stmt, _ in statements(func.body):
        if not isinstance(stmt, tirx.For) or is_vector(stmt) or is_parallel(stmt):
            continue
        if any(isinstance(s, tirx.For) for s, _ in statements(stmt.body)):
            continue
        count = stmt.extent
        if not isinstance(count, tirx.IntImm) or int(count) < extent:
            continue
        if any(_advances(index, stmt.loop_var) for index in _indices(stmt.body)):
            out.append(f"{stmt.loop_var.name}: {int(count)}")
    return out


def _indices(stmt: tirx.Stmt) -> list[ir.Expr]:
    """Return the last index of every load and store under `stmt`."""
    found: list[ir.Expr] = []
    for inner, _ in statements(stmt):
        if isinstance(inner, tirx.BufferStore):
            found.append(inner.indices[-1])
            found += [load.indices[-1] for load in _loads(inner.value)]
    return found


def _loads(expr: ir.Expr) -> Iterator[ir.TensorLoad]:
    stack = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, ir.TensorLoad):
            yield node
        for name in ("a", "b", "value", "condition", "true_value", "false_value", "body"):
            child = getattr(node, name, None)
            if isinstance(child, ir.Expr):
                stack.append(child)
        stack += [a for a in (*getattr(node, "args", ()), *getattr(node, "indices", ()))]


def _advances(index: ir.Expr, var: ir.Var) -> bool:
    """Return whether the index grows by one with `var`, at the loop's start."""
    first, second = (_evaluate(index, var, value) for value in (0, 1))
    return first is not None and second is not None and second - first == 1


def _evaluate(expr: ir.Expr, var: ir.Var, value: int) -> int | None:
    """Return an integer expression's value with every other variable 0; None if it loads."""
    if isinstance(expr, tirx.IntImm):
        return int(expr)
    if isinstance(expr, ir.Var):
        return value if expr.same_as(var) else 0
    if isinstance(expr, tirx.Cast):
        return _evaluate(expr.value, var, value)
    rule = ARITHMETIC.get(type(expr).__name__)
    if rule is None:
        return None
    sides = [_evaluate(side, var, value) for side in (expr.a, expr.b)]
    return None if None in sides else rule(*sides)


ARITHMETIC = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "FloorDiv": operator.floordiv,
    "FloorMod": operator.mod,
    "Min": min,
    "Max": max,
}
