"""What marks one step of a loop in a graph, in which it is written once, with everything else.

    x = each(xs); h = carry(h0)              # a step's part of xs, the state before the step
    ... operators of one step ...
    last, ys = end(h_next, y)                # the state behind all steps, all y behind each other

They are calls of functions that do not exist: RollLoops puts a loop in their place. Passes that lay
out weights or fold see a step's operators like any others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tvm import relax

_PREFIX = "tvm_stitch.loop"
_CALL = "relax.call_dps_packed"
_WAYS = {"+": False, "-": True}
Kind = Literal["each", "carry", "end"]


@dataclass(frozen=True)
class Marker:
    """A marker of a loop, by the loop's name; `number` is a carry's, or how many steps end.

    `backwards` says of `each`, and of every stack of an `end`, whether the last part is first.
    """

    kind: Kind
    loop: str
    number: int = 0
    backwards: tuple[bool, ...] = ()

    @property
    def function(self) -> str:
        """The name of the function it calls."""
        ways = "".join("-" if back else "+" for back in self.backwards)
        return f"{_PREFIX} {self.kind} {self.number} {ways or '.'} {self.loop}"

    def call(self, args: Sequence[relax.Expr], types: Sequence[relax.TensorType]) -> relax.Call:
        """Return the marker on operands."""
        kinds = types[0] if len(types) == 1 else list(types)
        return relax.call_dps_packed(self.function, relax.Tuple(list(args)), kinds)


def marker_of(value: relax.Expr) -> Marker | None:
    """Return the marker that an expression is, None if it is none."""
    if not isinstance(value, relax.Call) or getattr(value.op, "name", "") != _CALL:
        return None
    parts = str(getattr(value.args[0], "global_symbol", "")).split(" ", 4)
    if parts[0] != _PREFIX:
        return None
    _, kind, number, ways, loop = parts
    return Marker(kind, loop, int(number), tuple(_WAYS[way] for way in ways if way in _WAYS))
