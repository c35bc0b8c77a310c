"""What is decided for one kernel on a GPU, as data: stages and axes by their numbers.

Numbers are places in the kernel as the template reads it: `Space.nodes`, `Space.atoms`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ...decisions import knob


@dataclass(frozen=True)
class AxisDecisions:
    """Atoms that are walked as one, outer first, and how many positions of them a block has.

    A `serial` axis is no blocks' but a loop of each, of so many positions a step. Of several
    `views` of an axis a stage has one: their positions are the same in memory.
    """

    views: tuple[tuple[int, ...], ...]
    block: int = knob()
    serial: bool = False


@dataclass(frozen=True)
class SpreadDecisions:
    """How an axis, by its number, goes over threads: `width` positions of each side by side."""

    axis: int
    threads: int = knob()
    width: int = knob(1)


@dataclass(frozen=True)
class NestDecisions:
    """Nodes that are computed point by point; threads share the points in their `own` way, if any.

    Otherwise they do as in all nests of the launch. A product by tensor cores is no points but
    fragments of so many `warps` along its rows and columns.
    """

    nodes: tuple[int, ...]
    own: tuple[SpreadDecisions, ...] | None = None
    warps: tuple[int, int] | None = None


@dataclass(frozen=True)
class StagedDecisions:
    """What read of a node a block loads into shared memory first, and how threads share that."""

    node: int
    read: int
    spreads: tuple[SpreadDecisions, ...]


@dataclass(frozen=True)
class PhaseDecisions:
    """One launch: the axes of its blocks, the nests that run in each one after the other.

    The last of `spreads` numbers neighbouring threads. Of an axis that the nodes of a nest lack,
    threads all compute the same. What `shared` nodes make is kept in shared memory, what others
    make in registers. What several nests read is loaded once, into registers, where it takes up to
    `holds` words of a thread. Loops of up to `unrolls` positions are written out, besides those
    that registers are numbered by. Where tiles are `ahead`, what a step needs is loaded while the
    one before is computed. One that is `beside` is no launch of its own: its blocks are some of the
    launch before it (kernel packing, FusionStitching, section 4.1).
    """

    axes: tuple[AxisDecisions, ...]
    spreads: tuple[SpreadDecisions, ...]
    nests: tuple[NestDecisions, ...]
    shared: tuple[int, ...] = ()
    staged: tuple[StagedDecisions, ...] = ()
    holds: int = knob(96)
    unrolls: int = knob(32)
    ahead: bool = knob(False)
    beside: bool = False


class _MayBeBeside(Protocol):
    beside: bool


P = TypeVar("P", bound=_MayBeBeside)


def by_launch(phases: Sequence[P]) -> tuple[tuple[P, ...], ...]:
    """Return the phases of each launch, of a plan or of decisions: others beside the first."""
    found: list[list[P]] = []
    for phase in phases:
        if phase.beside:
            found[-1].append(phase)
        else:
            found.append([phase])
    return tuple(map(tuple, found))


@dataclass(frozen=True)
class PartDecisions:
    """Which sum, a stage of the kernel as it is read, is in so many parts of one of its axes."""

    stage: int
    axis: int
    count: int


@dataclass(frozen=True)
class Decisions:
    """How a kernel runs: its launches in order.

    Numbers of stages and axes are those of the kernel with its sums in `parts`.
    """

    phases: tuple[PhaseDecisions, ...]
    parts: tuple[PartDecisions, ...] = ()
