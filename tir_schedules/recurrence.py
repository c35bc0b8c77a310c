"""What a loop over steps hands to a step, and what it keeps of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
