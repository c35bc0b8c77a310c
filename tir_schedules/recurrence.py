"""What a loop over steps hands to a step, and what it keeps of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import tvm_ffi
from tvm import ir, tirx

from .tensor_ir.numbers import INDEX

Kind = Literal["each", "carry", "fixed", "next", "stack"]


@dataclass(frozen=True)
class Role:
    """What a parameter of a step is to the loop, numbered among those of its kind.

    `each` is a step's part of a tensor whose first axis is time, `carry` a state before the step,
    `fixed` the same in every step; `next` is that state behind it, `stack` what becomes a step's
    part of a result. `backwards` begins with the last part.
    """

    kind: Kind
    index: int
    backwards: bool = False


@dataclass(frozen=True)
class Recurrence:
    """A loop of so many steps: `roles` of a step's parameters, operands before results.

    A kernel that runs it has parameters in this order: the tensors of each `each`, the first value
    of each `carry`, each `fixed`, then the last value of each `next`, and each `stack`.
    """

    steps: int
    roles: tuple[Role, ...]

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"a loop has at least one step, not {self.steps}")

    def of_kind(self, kind: Kind) -> list[tuple[int, Role]]:
        """Return the positions of a step's parameters of a kind, by number."""
        found = [(at, role) for at, role in enumerate(self.roles) if role.kind == kind]
        return sorted(found, key=lambda pair: pair[1].index)


@dataclass(frozen=True)
class LoopPlan:
    """How a loop runs as one kernel; a page as text.

    `step` is the plan of a step, a page as text itself. Threads wait for each other behind each
    step, or where none `waits` each runs all steps of its rows.
    """

    steps: int
    step: object
    waits: bool

    def __str__(self) -> str:
        order = "threads wait for each other" if self.waits else "no thread waits for another"
        return f"{self.steps} steps in one kernel, {order}, each:\n{self.step}"


@dataclass(frozen=True)
class LoopKernel:
    """The scheduled kernel of a loop, and the plan that it was emitted by."""

    func: tirx.PrimFunc
    plan: LoopPlan


def serial_steps(step: tirx.PrimFunc, recurrence: Recurrence) -> tirx.PrimFunc:
    """Return a loop in plain loops, from a step as it was before it was scheduled.

    To be read, not to be scheduled: regions of blocks are those of a step.
    """
    number = tirx.Var("step", INDEX)
    own, places, before, behind, states = step.params, {}, [], [], []
    params: dict[str, list[ir.Var]] = {kind: [] for kind in ("each", "carry", "fixed", "next")}
    params["stack"] = []
    for kind in ("each", "stack", "fixed"):
        for at, role in recurrence.of_kind(kind):
            param = own[at]
            if kind != "fixed":
                param = _like(param, (recurrence.steps, *param.ty.shape))
                last = tirx.IntImm(INDEX, recurrence.steps - 1)
                places[own[at]] = param, (last - number if role.backwards else number,)
            params[kind].append(param)
    two, one = (tirx.IntImm(INDEX, n) for n in (2, 1))
    for at, _ in recurrence.of_kind("carry"):
        state, first = _like(own[at], (2, *own[at].ty.shape)), _like(own[at], own[at].ty.shape)
        states.append(state)
        params["carry"].append(first)
        before.append(_moved(first, (), state, (tirx.IntImm(INDEX, 0),)))
        places[own[at]] = state, (tirx.FloorMod(number, two),)
    for at, role in recurrence.of_kind("next"):
        final = _like(own[at], own[at].ty.shape)
        params["next"].append(final)
        parity = tirx.IntImm(INDEX, recurrence.steps % 2)
        behind.append(_moved(states[role.index], (parity,), final, ()))
        places[own[at]] = states[role.index], (tirx.FloorMod(number + one, two),)

    def load(node: ir.TensorLoad) -> ir.Expr:
        if node.source not in places:
            return node
        base, lead = places[node.source]
        return tirx.BufferLoad(base, [*lead, *node.indices])

    def store(node: tirx.BufferStore) -> tirx.Stmt:
        if node.buffer not in places:
            return node
        base, lead = places[node.buffer]
        return tirx.BufferStore(base, node.value, [*lead, *node.indices])

    callbacks = [(ir.TensorLoad, load), (tirx.BufferStore, store)]
    body = tvm_ffi.structural_map(step.body, callbacks, order="post")
    steps = tirx.For(number, 0, recurrence.steps, tirx.ForKind.SERIAL, body)
    allocated = [tirx.AllocBuffer(state) for state in states]
    whole = tirx.SeqStmt([*allocated, *before, steps, *behind])
    ordered = [param for kind in ("each", "carry", "fixed", "next", "stack")
               for param in params[kind]]  # fmt: skip
    return tirx.PrimFunc(ordered, whole)


def _like(buffer: ir.Var, shape: tuple) -> ir.Var:
    return tirx.decl_buffer(list(shape), buffer.ty.dtype, buffer.name, layout=None)


def _moved(source: ir.Var, lead: tuple, into: ir.Var, into_lead: tuple) -> tirx.Stmt:
    """Copy a state, which is what stands behind these first indices."""
    shape = (source if not lead else into).ty.shape
    at = [tirx.Var(f"i{n}", INDEX) for n in range(len(shape))]
    body = tirx.BufferStore(into, tirx.BufferLoad(source, [*lead, *at]), [*into_lead, *at])
    for var, extent in reversed(list(zip(at, shape, strict=True))):
        body = tirx.For(var, 0, extent, tirx.ForKind.SERIAL, body)
    return body
