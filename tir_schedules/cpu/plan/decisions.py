"""What is decided for one kernel on a CPU, as data: stages, axes and reads by their numbers.

Numbers are places in the kernel as the template reads it: `Space.nodes`, `Space.atoms`, the reads
of a node, the results of the kernel. The same kernel is always numbered alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...decisions import knob

LOOPS, PRODUCT, WINDOW, TRANSPOSED = "loops", "product", "window", "transposed"
FORMS = (LOOPS, PRODUCT, WINDOW, TRANSPOSED)
STORE = -1  # in place of a read


@dataclass(frozen=True)
class FetchDecision:
    """What read of a node a nest asks for, so many elements ahead, into which cache."""

    node: int
    read: int
    ahead: int
    cache: int


@dataclass(frozen=True)
class NestDecisions:
    """One loop nest: the nodes in it, its loops outer to inner, the last of them in `lanes`.

    `form` says how rows are made: one by one, as the register tile of a product, of a window's, or
    transposed in registers; `rows` of them at a time. `strip` is how many loops stand around the
    one over strips of lanes. `next_tile` are the accesses, of a node and a read, whose part of the
    next tile is fetched in each step.
    """

    form: str
    nodes: tuple[int, ...]
    epilogue: NestDecisions | None
    flattened_outer: int | None
    loops: tuple[int, ...] = knob()
    strip: int = knob()
    lanes: int = knob()
    rows: int = knob()
    packed: bool = knob()
    fetches: tuple[FetchDecision, ...] = knob(())
    next_tile: tuple[tuple[int, int], ...] = knob(())
    shuffles: bool = knob(True)
    reciprocals: bool = knob(False)


@dataclass(frozen=True)
class PhaseDecisions:
    """One pass over tiles: which nodes meet in it, which axes number its tiles.

    `tile` are axes and how much of each stays inside a tile, 0 for one position. The last of them
    is a loop in each tile if that is `serial`. `partial` are nodes whose sums tiles cut: what they
    leave is added up a phase later, `combine_lanes` at a time. Tile buffers of `shared` are those
    of what the node reads for the last time, lines of `deinterleaved` are stored in parts.
    """

    nodes: tuple[int, ...]
    partial: tuple[int, ...]
    serial: bool
    nests: tuple[NestDecisions, ...]
    tile: tuple[tuple[int, int], ...] = knob()
    combine_lanes: tuple[int, ...] = knob(())
    shared: tuple[int, ...] = knob(())
    deinterleaved: tuple[int, ...] = knob(())


@dataclass(frozen=True)
class AttentionDecisions:
    """Attention in one pass over blocks of keys: the sizes of its tiles.

    A tile is `blocks` register tiles of `rows`, over `block_keys` at a time, which are packed in
    panels of `lanes`; `column_lanes` of the values are summed at a time. Blocks that a mask hides
    are left out where `skips`.
    """

    rows: int = knob()
    blocks: int = knob()
    block_keys: int = knob()
    lanes: int = knob()
    column_lanes: int = knob()
    skips: bool = knob()


@dataclass(frozen=True)
class GuardDecisions:
    """What checks that a kernel's usual way is right, and its other way where it is not."""

    check: Decisions
    other: Decisions | None


@dataclass(frozen=True)
class Decisions:
    """All that is decided for one kernel: its phases, or attention in one pass instead.

    It runs `tasks` in parallel, or in order. `streamed` are results stored past the caches.
    """

    phases: tuple[PhaseDecisions, ...]
    attention: AttentionDecisions | None
    guards: tuple[GuardDecisions, ...]
    parallel: bool = knob()
    tasks: int = knob()
    streamed: tuple[int, ...] = knob(())
