"""Find each call of one program in another that ought to compute the same from the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm_stitch.verification.program import Program, Step, Value


class Rewired(Exception):
    """The programs differ: says where."""


@dataclass(frozen=True)
class _Inside:
    """A place in a program: at its top, or inside what `call` of the top computes."""

    call: Step | None = None
    body: Program | None = None


def match(
    before: Program, after: Program, inside: Callable[[Step], Program | None] = lambda _: None
) -> dict[Step, dict[Step, Step]]:
    """Return, for each call of `after`, its steps, each with the step of `before` that it is.

    `inside` tells what a call of `after` consists of, None if it is a step itself; a call's only
    step is then the call. Views and reshapes are alike. Kernels that stand alone may have another
    name. What `before` computes in vain may be missing, what it computes once may be there twice.

    Raises: Rewired if results of `after` are not made as those of `before`.
    """
    return _Matcher(inside).match(before, after)


class _Matcher:
    def __init__(self, inside: Callable[[Step], Program | None]) -> None:
        self._inside = inside
        self._bodies: dict[Step, Program | None] = {}
        self._inputs: dict[Value, Value] = {}
        self._open: list[tuple[Value, Value, _Inside]] = []
        self._seen: set[tuple] = set()
        self._found: dict[Step, dict[Step, Step]] = {}

    def match(self, before: Program, after: Program) -> dict[Step, dict[Step, Step]]:
        self._inputs = dict(zip(before.inputs, after.inputs, strict=False))
        self._pair(before.results, after.results, _Inside())
        while self._open:
            self._compare(*self._open.pop())
        return self._found

    def _pair(self, before: list[Value], after: list[Value], where: _Inside) -> None:
        if len(before) != len(after):
            raise Rewired(f"{len(after)} values where there were {len(before)}")
        self._open += [(b, a, where) for b, a in zip(before, after, strict=True)]

    def _compare(self, before: Value, after: Value, where: _Inside) -> None:
        after, where = self._resolve(after, where)
        key = (before, after, where.call)
        if key in self._seen:
            return
        self._seen.add(key)
        if before.is_constant or after.is_constant:
            self._compare_constants(before, after)
        elif before.maker is None or after.maker is None:
            if self._inputs.get(before) is not after:
                raise Rewired(f"{after.name} where {before.name} was read")
        else:
            self._compare_steps(before.maker, after.maker, where)
            if before.position != after.position:
                raise Rewired(f"result {after.position} of {after.maker.name} is read as another")

    def _resolve(self, value: Value, where: _Inside) -> tuple[Value, _Inside]:
        """Follow a value into the call that makes it, or out of one whose input it is."""
        while True:
            if where.call is not None and value.maker is None and value in where.body.inputs:
                value = where.call.inputs[where.body.inputs.index(value)]
                where = _Inside()
            elif value.maker is not None and (body := self._body(value.maker)) is not None:
                where = _Inside(value.maker, body)
                value = body.results[value.position]
            else:
                return value, where

    def _body(self, step: Step) -> Program | None:
        if step not in self._bodies:
            self._bodies[step] = self._inside(step) if step.kind == "kernel" else None
        return self._bodies[step]

    def _compare_constants(self, before: Value, after: Value) -> None:
        one, other = before.constant, after.constant
        if one is None or other is None or one.tobytes() != other.tobytes():
            raise Rewired(f"another constant where {before.name} was read")

    def _compare_steps(self, before: Step, after: Step, where: _Inside) -> None:
        alike = before.kind == after.kind or {before.kind, after.kind} == {"kernel", "view"}
        renamed = where.call is None and before.kind == "kernel"
        if not alike or (before.name != after.name and not renamed):
            raise Rewired(f"{after.name} where {before.name} was called")
        self._found.setdefault(where.call or after, {})[after] = before
        self._pair(before.inputs, after.inputs, where)
        for one, other in zip(before.branches, after.branches, strict=True):
            self._pair(one.results, other.results, where)
