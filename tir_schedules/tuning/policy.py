"""How the search moves in a space and how far it looks, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchPolicy:
    """Before a batch is proposed `population` candidates are ranked `rounds` times over.

    Planning one takes about 2 ms, building and measuring one 100. `random`: of a batch, not by
    rank. `changed`: knobs of a sample that are not as the cost model decides, in the mean. `knob`,
    `alike`: how often one knob moves, and all of a name. `near`: of the moves of a size, to one
    beside it.
    """

    batch: int = 4
    population: int = 64
    rounds: int = 3
    random: float = 0.1
    changed: float = 3.0
    knob: float = 0.75
    alike: float = 0.25
    near: float = 0.7


POLICY = SearchPolicy()
