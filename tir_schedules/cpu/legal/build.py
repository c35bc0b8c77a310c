"""A plan of decisions: the objects that their numbers name, laid out, and checked.

Nothing is chosen here, and nothing refused for being slow. What is asked for to no effect is left
out: decisions that make the same code make equal plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from ...analysis.iteration_space import Access, Atom, Node, Space
from ...kernel_ir.expr import Tensor
from ..facts.memory.deinterleave import deinterleave_of
from ..facts.memory.layout import combine_phase, cross_phase, tile_bytes
from ..facts.memory.next_tile import next_tile_of
from ..facts.memory.tile_sharing import may_overwrite
from ..facts.products.row_packing import packable
from ..facts.reading import Reading
from ..facts.windows import window_of
from ..plan.decisions import (
    FORMS,
    PRODUCT,
    STORE,
    TRANSPOSED,
    WINDOW,
    Decisions,
    NestDecisions,
    PhaseDecisions,
)
from ..plan.kernel_plan import Guard, LoopNest, Phase, Plan
from ..plan.memory import Fetch
from .attention import streaming_form
from .memory import refuse_memory, refuse_streamed
from .nests import refuse_nests, refuse_width
from .phases import refuse_phases

T = TypeVar("T")


class Illegal(Exception):
    """What decisions ask for can't be done; caught where a plan is made of them."""


def build_plan(reading: Reading, decisions: Decisions, vector_bytes: int) -> Plan | str:
    """Return the plan that decisions make of a kernel, or the first reason why they make none."""
    try:
        return _guarded(reading, decisions, vector_bytes)
    except Illegal as reason:
        return str(reason)


def _guarded(reading: Reading, decisions: Decisions, vector_bytes: int) -> Plan:
    if reading.ways is None:
        if decisions.guards:
            raise Illegal("there is no other way that a guard could choose")
        return _alone(reading, decisions, vector_bytes)
    if not decisions.guards:
        raise Illegal("the kernel chooses between two ways: each needs decisions, and the check")
    guard, *behind = decisions.guards
    if (guard.other is None) != (reading.other is None):
        raise Illegal("decisions are for another number of ways than the kernel has")
    usual = _guarded(reading.usual, replace(decisions, guards=tuple(behind)), vector_bytes)
    check = _guarded(reading.check, guard.check, vector_bytes)
    other = guard.other and _guarded(reading.other, guard.other, vector_bytes)
    made = Guard(check, reading.ways.made, other)
    return replace(usual, guards=(made, *usual.guards))


def _alone(reading: Reading, decisions: Decisions, vector_bytes: int) -> Plan:
    if decisions.tasks < 1:
        raise Illegal(f"{decisions.tasks} tasks")
    if decisions.attention is not None:
        if decisions.phases or decisions.streamed:
            raise Illegal("attention in one pass has no phases")
        form = _or_illegal(streaming_form(reading.attention, decisions.attention, vector_bytes))
        return Plan(
            reading.attention.space,
            (),
            decisions.parallel,
            _tasks(decisions, [form.all_tiles]),
            vector_bytes=vector_bytes,
            tile_bytes=form.tile_bytes,
            streaming=form,
        )
    space = reading.space
    return _Builder(space, vector_bytes).plan(decisions)


def _or_illegal(answer: T | str) -> T:
    if isinstance(answer, str):
        raise Illegal(answer)
    return answer


def _refused(reason: str | None) -> None:
    if reason is not None:
        raise Illegal(reason)


class _Builder:
    def __init__(self, space: Space, vector_bytes: int) -> None:
        self._space, self._vector_bytes = space, vector_bytes

    def plan(self, decisions: Decisions) -> Plan:
        space = self._space
        drafts = [self._draft(phase) for phase in decisions.phases]
        phases: list[Phase] = []
        for draft, decided in zip(drafts, decisions.phases, strict=True):
            phases.append(draft)
            if draft.partial:
                phases.append(self._combine(draft, decided))
        _refused(refuse_phases(phases, space))
        for phase in drafts:
            _refused(refuse_nests(phase, space, self._vector_bytes))
        drafts = [replace(p, groups=tuple(_filled(g, p) for g in p.groups)) for p in drafts]
        crossing = cross_phase(space, phases)
        outputs = space.kernel.outputs
        streamed = tuple(_picked(outputs, at, "result") for at in decisions.streamed)
        for tensor in streamed:
            _refused(refuse_streamed(tensor, drafts, space, self._vector_bytes))
        pairs = zip(drafts, decisions.phases, strict=True)
        whole = iter([self._with_memory(draft, decided, crossing) for draft, decided in pairs])
        done = tuple(phase if phase.combine else next(whole) for phase in phases)
        return Plan(
            space,
            done,
            decisions.parallel,
            _tasks(decisions, [phase.tiles() for phase in done]),
            crossing,
            tuple(t for t in crossing if not any(t is out for out in outputs)),
            streamed,
            vector_bytes=self._vector_bytes,
            tile_bytes=max((tile_bytes(p, space, crossing, p.shared) for p in done), default=0),
        )

    def _draft(self, decided: PhaseDecisions) -> Phase:
        """Return a phase without what depends on all of its nests."""
        nodes = self._nodes(decided.nodes)
        tile = tuple(self._atom(number) for number, _ in decided.tile)
        sizes = zip(tile, (size for _, size in decided.tile), strict=True)
        chunks = {atom: size for atom, size in sizes if size}
        if decided.serial and not tile:
            raise Illegal("no axis of the tiles is a loop in each")
        partial = self._nodes(decided.partial)
        walked = tile[-1] if decided.serial else None
        if not partial:  # an axis in one piece numbers no tiles
            tile = tuple(a for a in tile if a is walked or chunks.get(a) != a.extent)
            chunks = {atom: size for atom, size in chunks.items() if atom in tile}
        phase = Phase(nodes, tile, chunks, (), partial, serial_tile_axis=walked)
        groups = tuple(self._nest(nest, phase) for nest in decided.nests)
        return replace(phase, groups=groups)

    def _combine(self, phase: Phase, decided: PhaseDecisions) -> Phase:
        if len(decided.combine_lanes) != len(phase.partial):
            raise Illegal("the lanes that add up partial sums are a number for each")
        made = combine_phase(phase.partial, decided.combine_lanes)
        for group in made.groups:
            _refused(refuse_width(group, made))
        return made

    def _nest(self, decided: NestDecisions, phase: Phase) -> LoopNest:
        if decided.form not in FORMS:
            raise Illegal(f"{decided.form} is no form of a nest: {', '.join(FORMS)} are")
        if decided.rows != 1 and decided.form not in (PRODUCT, WINDOW):
            raise Illegal(f"{decided.rows} rows at a time without a register tile")
        if decided.rows == 1 and decided.form == PRODUCT:
            raise Illegal("a register tile of one row")
        nodes = self._nodes(decided.nodes)
        dims = tuple(self._atom(number) for number in decided.loops)
        outer = decided.flattened_outer
        window = None
        if decided.form == WINDOW:
            window = window_of(nodes[0], dims[-1]) if len(nodes) == 1 and dims else None
            if window is None:
                raise Illegal("no rows share the lines of a window")
        group = LoopNest(
            nodes,
            dims,
            decided.lanes,
            decided.strip,
            decided.rows,
            None if decided.epilogue is None else self._nest(decided.epilogue, phase),
            None if outer is None else self._atom(outer),
            decided.form == TRANSPOSED,
            window,
            shuffles=decided.shuffles,
            reciprocals=decided.reciprocals,
        )
        return group

    def _with_memory(
        self, phase: Phase, decided: PhaseDecisions, crossing: Sequence[Tensor]
    ) -> Phase:
        """Return a phase with what its nests fetch, pack, and share of their buffers."""
        space = self._space
        kept = phase.buffered(space, crossing)
        parts = {n: deinterleave_of(n, phase, space) for n in self._nodes(decided.deinterleaved)}
        if any(part is None or node not in kept for node, part in parts.items()):
            raise Illegal("lines are in parts that not all read in the same parts")
        pairs = zip(phase.groups, decided.nests, strict=True)
        groups = [self._packed(group, nest, phase) for group, nest in pairs]
        packed = replace(phase, groups=tuple(groups))
        pairs = zip(groups, decided.nests, strict=True)
        groups = [self._fetching(group, nest, packed) for group, nest in pairs]
        done = replace(
            phase,
            groups=tuple(groups),
            shared=self._shared(phase, kept, self._nodes(decided.shared)),
            deinterleaved=parts,
        )
        _refused(refuse_memory(done, space))
        return done

    def _packed(self, group: LoopNest, decided: NestDecisions, phase: Phase) -> LoopNest:
        if not decided.packed:
            return group
        load = packable(group, phase)
        if load is None:
            raise Illegal("what rows read can't be packed")
        return replace(group, packed=load)

    def _fetching(self, group: LoopNest, decided: NestDecisions, phase: Phase) -> LoopNest:
        fetches = tuple(
            Fetch(self._access(f.node, f.read), f.ahead, f.cache) for f in decided.fetches
        )
        ahead = []
        for node, read in decided.next_tile:
            found = next_tile_of(self._access(node, read), group, phase)
            if found is None:
                raise Illegal("an access has no next tile whose lines could be fetched")
            ahead.append(replace(found, writes=read == STORE))
        behind, epilogue = group.epilogue, decided.epilogue
        if behind is not None and epilogue is not None:
            behind = self._fetching(behind, epilogue, phase)
        return replace(group, epilogue=behind, fetches=fetches, next_tile=tuple(ahead))

    def _shared(
        self, phase: Phase, kept: Sequence[Node], writers: Sequence[Node]
    ) -> dict[Node, Node]:
        found: dict[Node, Node] = {}
        for writer in (n for n in kept if n in writers):
            over = next((n for n in kept if may_overwrite(writer, n, phase, self._space)), None)
            if over is None:
                raise Illegal(f"{writer.stage.name} may not be written over what it reads")
            found[writer] = found.get(over, over)
        if len(found) != len(set(writers)):
            raise Illegal("what has no tile buffer is in none of another")
        return found

    def _nodes(self, numbers: Sequence[int]) -> tuple[Node, ...]:
        return tuple(_picked(self._space.nodes, at, "node") for at in numbers)

    def _atom(self, number: int) -> Atom:
        return _picked(self._space.atoms, number, "axis")

    def _access(self, node: int, read: int) -> Access:
        found = _picked(self._space.nodes, node, "node")
        if read == STORE:
            return found.store
        return _picked(tuple(found.reads.values()), read, "read")


def _filled(group: LoopNest, phase: Phase) -> LoopNest:
    """Return a nest that takes no more rows at a time than a tile has."""
    if group.rows == 1:
        return group
    return replace(group, rows=min(group.rows, max(2, phase.tile_rows(group))))


def _tasks(decisions: Decisions, tiles: Sequence[int]) -> int:
    """Return the tasks that tiles are shared out in, each with one of some phase at least.

    On one thread one of all tiles is the same loop as one of each.
    """
    most = max(tiles, default=1)
    alone = not decisions.parallel and not any(phase.partial for phase in decisions.phases)
    return 1 if alone and decisions.tasks >= most else min(decisions.tasks, most)


def _picked(items: Sequence[T], number: int, what: str) -> T:
    if not 0 <= number < len(items):
        raise Illegal(f"the kernel has no {what} {number}")
    return items[number]
