"""How many rewrites may still be applied, to find by bisection the one that makes an answer wrong.

Every pass asks before each rewrite that a right model does without; legalisation, and what an
importer cannot do without, is none. A pass that is refused leaves the place as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Rewrite:
    """One application of a rewrite; `places` are names of variables, or of functions."""

    name: str
    places: tuple[str, ...]


@dataclass
class Fuel:
    """`limit` rewrites are allowed, None for any number; `spent` are those applied, in order."""

    limit: int | None = None
    spent: list[Rewrite] = field(default_factory=list)

    @property
    def left(self) -> int | None:
        return None if self.limit is None else max(0, self.limit - len(self.spent))


_current: ContextVar[Fuel | None] = ContextVar("fuel", default=None)


@contextmanager
def burning(fuel: Fuel) -> Iterator[Fuel]:
    """Let the rewrites within the block cost this fuel."""
    token = _current.set(fuel)
    try:
        yield fuel
    finally:
        _current.reset(token)


@contextmanager
def unnoted() -> Iterator[None]:
    """Allow any number of rewrites within the block, of which none counts."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


def left() -> int | None:
    """Return how many rewrites are still allowed, None for any number."""
    fuel = _current.get()
    return None if fuel is None else fuel.left


def is_out() -> bool:
    """Return whether no rewrite is allowed any more."""
    return left() == 0


def spend(name: str, *places: str) -> bool:
    """Return whether a rewrite may be applied, which it is then."""
    fuel = _current.get()
    if fuel is None:
        return True
    if fuel.left == 0:
        return False
    fuel.spent.append(Rewrite(name, places))
    return True
