"""What else could be decided for a kernel: its variants, and the candidates of each knob of one."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from .decisions import variant, with_knob


@dataclass(frozen=True)
class Knob:
    """A decision that may change alone, by its path, and what it may be, as decided among them."""

    path: str
    candidates: tuple[Any, ...]


@dataclass(frozen=True)
class VariantSpace:
    """One structure of a kernel: the decisions of the cost model for it, and its knobs."""

    default: Any
    knobs: tuple[Knob, ...]

    @property
    def variant(self) -> str:
        """The structure as text."""
        return variant(self.default)

    def sample(self, rng: random.Random, most: int = 4) -> Any:
        """Return decisions that differ from the default in up to so many knobs."""
        decisions = self.default
        free = [knob for knob in self.knobs if len(knob.candidates) > 1]
        for knob in rng.sample(free, min(len(free), rng.randint(1, most))):
            decisions = with_knob(decisions, knob.path, rng.choice(knob.candidates))
        return decisions


@dataclass(frozen=True)
class DecisionSpace:
    """All variants of a kernel, the one that the cost model chooses first."""

    variants: tuple[VariantSpace, ...]

    def sample(self, rng: random.Random) -> Any:
        return rng.choice(self.variants).sample(rng)
