"""What follows from phases: what crosses them, what adds up partial sums, the buffers of a tile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....analysis.iteration_space import Node, Space
from ....kernel_ir.expr import Tensor
from ...plan.kernel_plan import LoopNest, Phase, buffer_bytes, most_alive


def cross_phase(space: Space, phases: Sequence[Phase]) -> tuple[Tensor, ...]:
    """Return the tensors, results among them, that one phase writes and a later one reads."""
    starts: dict[Node, int] = {}
    ends: dict[Node, int] = {}
    for number, phase in enumerate(phases):
        for node in phase.nodes:
            starts.setdefault(node, number)
            ends[node] = number
    crossing = (e for e in space.edges if ends[e.producer] != starts[e.consumer])
    return tuple(dict.fromkeys(e.producer.stage.out for e in crossing))


def combine_phase(partial: Sequence[Node], lanes: Sequence[int]) -> Phase:
    """Return the phase that adds up partial results: spatial loops only, one nest a node."""
    groups = tuple(
        LoopNest((node,), node.spatial, width, max(0, len(node.spatial) - 1))
        for node, width in zip(partial, lanes, strict=True)
    )
    return Phase(tuple(partial), (), {}, groups, combine=tuple(partial))


def tile_bytes(
    phase: Phase, space: Space, crossing: Sequence[Tensor], shared: Mapping[Node, Node]
) -> int:
    """Return the most bytes of tile buffers in use at a time: TVM lets others have their memory.

    Nodes in `shared` have the buffers of others.
    """
    if phase.combine:
        return 0
    spans: dict[Node, tuple[int, int, int]] = {}
    place = {n: at for at, g in enumerate(phase.groups) for n in g.all_nodes()}
    kept = {n for g in phase.once() for n in g.nodes}
    for node in phase.buffered(space, crossing):
        starts = place[node]
        readers = [place.get(e.consumer, starts) for e in space.edges if e.producer is node]
        ends = len(phase.groups) if node in kept else max(readers, default=starts)
        span = (starts, ends, buffer_bytes(node, phase))
        buffer = shared.get(node, node)
        known = spans.get(buffer, span)
        spans[buffer] = (known[0], max(known[1], span[1]), span[2])
    return most_alive(list(spans.values()))
