"""Emit a loop over steps around a scheduled step: one kernel, and one parallel region of it.

States lie in two places each: a step reads the one that the step before has written.
"""

from __future__ import annotations

from collections.abc import Callable

import tvm_ffi
from tvm import ir, s_tir, tirx

from ...recurrence import Recurrence, Role
from ...tensor_ir.numbers import INDEX
from .nest import sequence

_REGION, _BARRIER = "pragma_parallel_launch_point", "pragma_parallel_barrier_when_finish"
Place = tuple[ir.Var, ir.Expr]


def over_steps(step: tirx.PrimFunc, recurrence: Recurrence, waits: bool) -> tirx.PrimFunc:
    """Return the kernel that runs a scheduled step for each step.

    Threads wait for each other behind each, or each task runs all steps where none `waits`.

    rewrite:
        f(x, h, w, g): parallel phases; barrier
      -> f(xs, h0, w, last): state[0] = h0
         region: for t: phases on xs[t], state[t % 2], w, state[(t + 1) % 2]; barrier
         last = state[steps % 2]
    """
    loop = _Loop(step, recurrence, waits)
    kept = {key: value for key, value in step.attrs.items() if key == "target"}
    root = s_tir.SBlock([], [], [], "root", loop.body())
    func = tirx.PrimFunc(loop.params, s_tir.SBlockRealize([], tirx.IntImm("bool", 1), root))
    return func.with_attr({**kept, "s_tir": True, "tirx.noalias": True})


class _Loop:
    """The parameters of the kernel, and where each view of a step's parameters lies in them."""

    def __init__(self, step: tirx.PrimFunc, recurrence: Recurrence, waits: bool) -> None:
        self._recurrence, self._at = recurrence, tirx.Var("step", INDEX)
        self._waits = waits
        self._declared: list[tirx.Stmt] = []
        self._before: list[tirx.Stmt] = []
        self._behind: list[tirx.Stmt] = []
        self._places: dict[ir.Var, Place] = {}
        self._statements = _flat(step.body.block.body)
        pairs = ((self._viewed(s), s) for s in self._statements)
        self._views = {param: s.buffer for param, s in pairs if param is not None}
        self._own = step.params
        self.params = self._lay_out()

    def _lay_out(self) -> list[ir.Var]:
        each = [self._timed(at, role) for at, role in self._recurrence.of_kind("each")]
        states = [self._state(at) for at, _ in self._recurrence.of_kind("carry")]
        fixed = [self._own[at] for at, _ in self._recurrence.of_kind("fixed")]
        for view in (self._views[param] for param in fixed):
            self._places[view] = view, tirx.IntImm(INDEX, 0)
        last = [
            self._last(at, role, states[role.index][1])
            for at, role in self._recurrence.of_kind("next")
        ]
        stacks = [self._timed(at, role) for at, role in self._recurrence.of_kind("stack")]
        return [*each, *(first for first, _ in states), *fixed, *last, *stacks]

    def body(self) -> tirx.Stmt:
        """Return the whole kernel."""
        declared = [s for s in self._statements if self._is_declaration(s)]
        rest = [s for s in self._statements if not self._is_declaration(s)]
        kept = [s for s in declared if self._viewed(s) is None or self._stays(s)]
        steps = _in_region(rest, self._over) if self._waits else _in_tasks(rest, self._over)
        return sequence([*kept, *self._declared, *self._before, steps, *self._behind])

    def _over(self, body: tirx.Stmt) -> tirx.Stmt:
        moved = tvm_ffi.structural_map(
            body, [(ir.TensorLoad, self._load), (tirx.BufferStore, self._store)], order="post"
        )
        return tirx.For(self._at, 0, self._recurrence.steps, tirx.ForKind.SERIAL, moved)

    def _load(self, load: ir.TensorLoad) -> ir.Expr:
        if load.source not in self._places:
            return load
        base, offset = self._places[load.source]
        return tirx.BufferLoad(base, [_shifted(load.indices[0], offset)])

    def _store(self, store: tirx.BufferStore) -> tirx.Stmt:
        if store.buffer not in self._places:
            return store
        base, offset = self._places[store.buffer]
        return tirx.BufferStore(base, store.value, [_shifted(store.indices[0], offset)])

    def _timed(self, at: int, role: Role) -> ir.Var:
        """Declare a tensor whose first axis is time; a step has its part of it."""
        steps, view = self._recurrence.steps, self._views[self._own[at]]
        param, flat = self._parameter(self._own[at], [steps, *self._own[at].ty.shape], view)
        number = tirx.IntImm(INDEX, steps - 1) - self._at if role.backwards else self._at
        self._places[view] = flat, number * _elements(view)
        return param

    def _state(self, at: int) -> tuple[ir.Var, ir.Var]:
        """Declare both places of a state, and what it is at first."""
        own = self._own[at]
        view = self._views[own]
        state = tirx.decl_buffer((2 * _elements(view),), view.ty.dtype, f"{own.name}_state")
        self._declared.append(tirx.AllocBuffer(state))
        first, flat = self._parameter(own, list(own.ty.shape), view)
        self._before.append(_copy(flat, state, tirx.IntImm(INDEX, 0), _elements(view), False))
        self._places[view] = state, self._parity(0) * _elements(view)
        return first, state

    def _last(self, at: int, role: Role, state: ir.Var) -> ir.Var:
        """Let a step write the other place of a state, and copy the last one."""
        own = self._own[at]
        view = self._views[own]
        last, flat = self._parameter(own, list(own.ty.shape), view)
        place = tirx.IntImm(INDEX, self._recurrence.steps % 2 * _elements(view))
        self._behind.append(_copy(state, flat, place, _elements(view), True))
        self._places[view] = state, self._parity(1) * _elements(view)
        return last

    def _parity(self, later: int) -> ir.Expr:
        two = tirx.IntImm(INDEX, 2)
        return tirx.FloorMod(self._at + tirx.IntImm(INDEX, later), two)

    def _parameter(self, own: ir.Var, shape: list, view: ir.Var) -> tuple[ir.Var, ir.Var]:
        """Declare a parameter like one of the step's, and its flat view."""
        align, dtype = own.ty.data_alignment, own.ty.dtype
        name = own.name
        param = tirx.decl_buffer(shape, dtype, name, data_alignment=align, layout=None)
        pointer = tirx.buffer_data(param)
        elements = 1
        for extent in shape:
            elements *= int(extent)
        flat = tirx.decl_buffer(
            (elements,), view.ty.dtype, f"{name}_", data=pointer, data_alignment=align
        )
        self._declared.append(tirx.DeclBuffer(flat, data=pointer))
        return param, flat

    def _viewed(self, stmt: tirx.Stmt) -> ir.Var | None:
        """Return the parameter that a statement declares a view of."""
        if not isinstance(stmt, tirx.DeclBuffer):
            return None
        return stmt.data.args[0]

    def _stays(self, stmt: tirx.DeclBuffer) -> bool:
        return self._places[stmt.buffer][0].same_as(stmt.buffer)

    @staticmethod
    def _is_declaration(stmt: tirx.Stmt) -> bool:
        return isinstance(stmt, (tirx.DeclBuffer, tirx.AllocBuffer))


def _in_region(rest: list[tirx.Stmt], over: Callable[[tirx.Stmt], tirx.Stmt]) -> tirx.Stmt:
    """Return what is done in each step, in one region that all threads enter once."""
    whole = rest[0] if len(rest) == 1 else None
    if isinstance(whole, tirx.AttrStmt) and whole.attr_key == _REGION:
        phases = _flat(whole.body)
        last = phases[-1]
        if not (isinstance(last, tirx.AttrStmt) and last.attr_key == _BARRIER):
            phases[-1] = _attr(_BARRIER, last)
        return _attr(_REGION, over(sequence(phases)))
    if isinstance(whole, tirx.For) and whole.kind == tirx.ForKind.PARALLEL:
        return _attr(_REGION, over(_attr(_BARRIER, whole)))
    return over(sequence(rest))


def _in_tasks(rest: list[tirx.Stmt], over: Callable[[tirx.Stmt], tirx.Stmt]) -> tirx.Stmt:
    """Return tasks that run all steps each, behind what a task begins with."""
    (tasks,) = rest
    return tirx.For(tasks.loop_var, tasks.min, tasks.extent, tasks.kind, over(tasks.body))


def _attr(key: str, body: tirx.Stmt) -> tirx.Stmt:
    return tirx.AttrStmt(tirx.IntImm(INDEX, 1), key, 1, body)


def _flat(stmt: tirx.Stmt) -> list[tirx.Stmt]:
    """Return the statements of a sequence."""
    if not isinstance(stmt, tirx.SeqStmt):
        return [stmt]
    return [each for part in stmt.seq for each in _flat(part)]


def _copy(
    source: ir.Var, into: ir.Var, offset: ir.Expr, elements: int, of_source: bool
) -> tirx.Stmt:
    """Copy elements, from or to what stands behind an offset."""
    at = tirx.Var("element", INDEX)
    read, write = (at + offset, at) if of_source else (at, at + offset)
    move = tirx.BufferStore(into, tirx.BufferLoad(source, [read]), [write])
    return tirx.For(at, 0, elements, tirx.ForKind.SERIAL, move)


def _shifted(index: ir.Expr, by: ir.Expr) -> ir.Expr:
    if isinstance(index, tirx.Ramp):
        return tirx.Ramp(index.base + by, index.stride, index.lanes)
    if isinstance(index.ty.dtype.lanes, int) and index.ty.dtype.lanes > 1:
        return index + tirx.Broadcast(by, index.ty.dtype.lanes)
    return index + by


def _elements(view: ir.Var) -> int:
    return int(view.ty.shape[0])
