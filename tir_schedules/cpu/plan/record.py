"""The decisions that a plan is made of: `legal.build` makes the same plan of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...analysis.iteration_space import Access, Atom, Node, Space
from ...kernel_ir.expr import Tensor
from .decisions import (
    LOOPS,
    PRODUCT,
    STORE,
    TRANSPOSED,
    WINDOW,
    AttentionDecisions,
    Decisions,
    FetchDecision,
    GuardDecisions,
    NestDecisions,
    PhaseDecisions,
)
from .kernel_plan import LoopNest, Phase, Plan
from .streaming_attention import StreamingAttention


def decisions_of(plan: Plan) -> Decisions:
    """Return what was decided for a plan's kernel, by the numbers of its nodes and axes."""
    numbers = _Numbers(plan.space)
    guards = (
        GuardDecisions(decisions_of(g.check), None if g.other is None else decisions_of(g.other))
        for g in plan.guards
    )
    return Decisions(
        phases=_phases(plan.phases, numbers),
        attention=None if plan.streaming is None else _attention(plan.streaming),
        guards=tuple(guards),
        parallel=plan.parallel,
        tasks=plan.tasks,
        streamed=_among(plan.streamed, plan.space.kernel.outputs),
    )


class _Numbers:
    """The places of a space's nodes and atoms, and of the reads of a node."""

    def __init__(self, space: Space) -> None:
        self._nodes: Mapping[Node, int] = {n: at for at, n in enumerate(space.nodes)}
        self._atoms: Mapping[Atom, int] = {a: at for at, a in enumerate(space.atoms)}

    def nodes(self, nodes: Sequence[Node]) -> tuple[int, ...]:
        return tuple(self._nodes[n] for n in nodes)

    def atoms(self, atoms: Sequence[Atom]) -> tuple[int, ...]:
        return tuple(self._atoms[a] for a in atoms)

    def access(self, access: Access) -> tuple[int, int]:
        """Return the node of an access and which of its reads that is."""
        for node, number in self._nodes.items():
            if node.store is access:
                return number, STORE
            for read, each in enumerate(node.reads.values()):
                if each is access:
                    return number, read
        raise ValueError(f"an access of {access.tensor} is of no node")


def _phases(phases: Sequence[Phase], numbers: _Numbers) -> tuple[PhaseDecisions, ...]:
    """Return the phases; one that adds up partial sums belongs to the one that leaves them."""
    out = []
    for at, phase in enumerate(phases):
        if phase.combine:
            continue
        behind = phases[at + 1].groups if phase.partial else ()
        out.append(
            PhaseDecisions(
                nodes=numbers.nodes(phase.nodes),
                partial=numbers.nodes(phase.partial),
                serial=phase.serial_tile_axis is not None,
                nests=tuple(_nest(group, numbers) for group in phase.groups),
                tile=tuple(
                    (number, phase.chunks.get(atom, 0))
                    for number, atom in zip(numbers.atoms(phase.tile), phase.tile, strict=True)
                ),
                combine_lanes=tuple(group.lanes for group in behind),
                shared=numbers.nodes(tuple(phase.shared)),
                deinterleaved=numbers.nodes(tuple(phase.deinterleaved)),
            )
        )
    return tuple(out)


def _nest(group: LoopNest, numbers: _Numbers) -> NestDecisions:
    return NestDecisions(
        form=_form(group),
        nodes=numbers.nodes(group.nodes),
        epilogue=None if group.epilogue is None else _nest(group.epilogue, numbers),
        flattened_outer=None
        if group.flattened_outer is None
        else numbers.atoms((group.flattened_outer,))[0],
        loops=numbers.atoms(group.dims),
        strip=group.strip_level,
        lanes=group.lanes,
        rows=group.rows,
        packed=group.packed is not None,
        fetches=tuple(
            FetchDecision(*numbers.access(f.access), f.ahead, f.cache) for f in group.fetches
        ),
        next_tile=tuple(numbers.access(each.access) for each in group.next_tile),
        shuffles=group.shuffles,
        reciprocals=group.reciprocals,
    )


def _form(group: LoopNest) -> str:
    if group.transposed:
        return TRANSPOSED
    if group.window is not None:
        return WINDOW
    return PRODUCT if group.rows > 1 else LOOPS


def _attention(form: StreamingAttention) -> AttentionDecisions:
    return AttentionDecisions(
        form.rows, form.blocks, form.block_keys, form.lanes, form.column_lanes, form.masked
    )


def _among(chosen: Sequence[Tensor], tensors: Sequence[Tensor]) -> tuple[int, ...]:
    return tuple(at for at, each in enumerate(tensors) if any(t is each for t in chosen))
