"""A loop written out, step behind step, where no kernel runs it."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax, te, topi

from .loops import Loop, operands
from .step import substituted

_MOST_AT_ONCE = 64  # topi nests a choice for each part of a concatenation


def unrolled(builder: relax.BlockBuilder, loop: Loop) -> relax.Expr:
    """Emit all steps; return what the loop's end is."""
    count = len(loop.carries)
    states = [operands(carry)[0] for carry in loop.carries]
    ways = loop.backwards(loop.end)
    stacks: list[list[relax.Expr]] = [[] for _ in ways]
    for step in range(loop.steps):
        inside = {b.var: state for b, state in zip(loop.carries, states, strict=True)}
        for binding in loop.each:
            (back,) = loop.backwards(binding)
            at = loop.steps - 1 - step if back else step
            inside[binding.var] = builder.emit(_part(builder, operands(binding)[0], at))
        for binding in loop.body:
            inside[binding.var] = builder.emit(substituted(binding.value, inside))
        results = [inside.get(result, result) for result in loop.results]
        states = results[:count]
        for stack, made in zip(stacks, results[count:], strict=True):
            stack.append(made)
    whole = [
        _stacked(builder, stack[::-1] if back else stack)
        for stack, back in zip(stacks, ways, strict=True)
    ]
    fields = [*states, *whole]
    return fields[0] if len(fields) == 1 else relax.Tuple(fields)


def _part(builder: relax.BlockBuilder, whole: relax.Expr, at: int) -> relax.Expr:
    def part(x: te.Tensor) -> te.Tensor:
        return te.compute(x.shape[1:], lambda *i: x(at, *i), "part")

    return builder.call_te(part, whole)


def _stacked(builder: relax.BlockBuilder, parts: Sequence[relax.Expr]) -> relax.Expr:
    """Return parts behind each other along a new first axis."""

    def stack(*tensors: te.Tensor) -> te.Tensor:
        return topi.stack(list(tensors), 0)

    def concat(*tensors: te.Tensor) -> te.Tensor:
        return topi.concatenate(list(tensors), 0)

    lines = [
        builder.emit(builder.call_te(stack, *parts[at : at + _MOST_AT_ONCE]))
        for at in range(0, len(parts), _MOST_AT_ONCE)
    ]
    return lines[0] if len(lines) == 1 else builder.emit(builder.call_te(concat, *lines))
