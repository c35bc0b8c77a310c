"""Which loops a nest may have, in which order, and how many lanes and rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...analysis.iteration_space import Space
from ..facts import guards
from ..facts.nest_order import accumulation, is_at_same_point, keeps_accumulators
from ..facts.padding import bounds_of, padding_of
from ..facts.products.epilogues import may_follow
from ..facts.products.register_tile import register_tile, runs_on
from ..facts.transposed import lanes_across, sides
from ..plan.kernel_plan import LoopNest, Phase

_MOST_ROWS = 64  # emitted one after the other


def refuse_nests(phase: Phase, space: Space, vector_bytes: int) -> str | None:
    """Return why the nests of a phase can't run as they are, or None."""
    reasons = (r for g in phase.groups for r in _reasons(g, phase, space, vector_bytes))
    return next((reason for reason in reasons if reason is not None), None)


def _reasons(
    group: LoopNest, phase: Phase, space: Space, vector_bytes: int
) -> Iterator[str | None]:
    yield _refuse_loops(group, phase)
    yield _refuse_lanes(group, phase)
    yield _refuse_order(group, phase, space)
    if group.transposed:
        yield refuse_transposed(group, phase, vector_bytes)
    elif group.window is not None:
        yield refuse_window(group, phase)
    elif group.rows > 1:
        yield refuse_register_tile(group, phase)
    else:
        yield refuse_sums(group, phase)
    if group.epilogue is not None:
        yield _refuse_epilogue(group, phase, space, vector_bytes)


def _refuse_loops(group: LoopNest, phase: Phase) -> str | None:
    if not group.nodes:
        return "a nest without nodes"
    loops = [*group.dims, *(() if group.flattened_outer is None else (group.flattened_outer,))]
    if len(set(loops)) != len(loops):
        return "an axis is two loops of a nest"
    for node in group.nodes:
        if set(phase.inside(node.atoms)) != set(loops):
            return f"{node.stage.name} has other axes than the loops of its nest"
    if not 0 <= group.strip_level <= max(0, len(group.dims) - 1):
        return "strips stand inside loops that are not there"
    if not 1 <= group.rows <= _MOST_ROWS:
        return f"{group.rows} rows at a time"
    if group.rows > 1 and group.strip_level < 1:
        return "no loop is in blocks of rows"
    return None


def refuse_width(group: LoopNest, phase: Phase) -> str | None:
    """Return why a nest can't have so many lanes, whatever it computes in them, or None."""
    lanes = group.lanes
    if lanes < 1 or lanes & (lanes - 1):
        return f"{lanes} lanes, no power of two"
    if lanes == 1:
        return None
    if not group.dims:
        return "lanes of a single point"
    most = phase.inner_extent(group.dims[-1])
    return f"{lanes} lanes along {most} positions" if lanes > most else None


def _refuse_lanes(group: LoopNest, phase: Phase) -> str | None:
    reason = refuse_width(group, phase)
    if reason is not None or group.lanes == 1:
        return reason
    vector = group.dims[-1]
    accesses = [a for n in group.nodes for a in (n.store, *n.reads.values())]
    if not any(a.stride(vector) == 1 for a in accesses):
        return "nothing is contiguous along the lanes"
    for node in group.nodes:
        cuts = guards.cuts(node, vector)
        if cuts is None:
            return f"lanes of {node.stage.name} would not agree on a condition"
        if cuts and vector in phase.chunks:
            return f"conditions of {node.stage.name} change inside a chunk of the lanes"
    return None


def _refuse_order(group: LoopNest, phase: Phase, space: Space) -> str | None:
    """Return why nodes of a nest may not follow each other at each point, or None."""
    turn = {node: at for at, node in enumerate(group.nodes)}
    inside = {a for node in group.nodes for a in phase.inside(node.atoms)}
    for edge in space.edges:
        if edge.producer not in turn or edge.consumer not in turn:
            continue
        made = edge.producer
        if turn[made] > turn[edge.consumer]:
            return f"{edge.consumer.stage.name} reads {made.stage.name} before it is made"
        if not is_at_same_point(edge, inside):
            return f"{edge.consumer.stage.name} reads other points of {made.stage.name} in one nest"
    return None


def refuse_sums(group: LoopNest, phase: Phase) -> str | None:
    """Return why a nest of single rows can't keep its accumulators where they have to be."""
    if group.flattened_outer is not None:
        return "rows run on in register tiles alone"
    dims, level, last = group.dims, group.strip_level, max(0, len(group.dims) - 1)
    summed = [n for n in group.nodes if set(n.reduced) & set(dims)]
    for node in summed:
        if not keeps_accumulators(node, dims):
            return f"accumulators of {node.stage.name} would be lost between its loops"
        kept = accumulation(node, dims, level)
        if kept.streamed and node.stage.out.dtype != node.stage.value.dtype:
            return f"{node.stage.name} would be rounded at each step of its sum"
    if dims and any(dims[-1] in n.reduced for n in summed):
        if any(guards.select_unrolled(n) for n in group.nodes):
            return "positions told apart stand inside a sum over lanes"
        if level < last:
            return "strips of summed lanes stand outside other loops"
    if level < last and summed:
        if any(set(dims[:level]) & set(n.reduced) for n in summed):
            return "a sum goes on outside the strip that its accumulators are in"
        between = set(dims[level:last])
        if len(summed) < len(group.nodes) or not all(between <= set(n.reduced) for n in summed):
            return "strips stand outside loops over what they store"
    return None


def refuse_register_tile(group: LoopNest, phase: Phase) -> str | None:
    """Return why a nest can't be a register tile, or None."""
    if len(group.nodes) != 1:
        return "a register tile is of one node"
    (node,) = group.nodes
    tile, dims = register_tile(node), group.dims
    if tile is None:
        return f"{node.stage.name} is no sum of products along lanes"
    row, level = dims[group.strip_level - 1], group.strip_level
    if dims[-1] is not tile.lane or row is not tile.row:
        return "a register tile has other rows or lanes"
    if group.lanes == 1 or guards.cuts(node, tile.lane) != []:
        return "a register tile has no lanes that agree"
    inside = set(phase.inside(node.reduced))
    if set(dims[level:-1]) != inside:
        return "loops inside a register tile are those of its sum"
    if group.flattened_outer is None:
        return None
    if group.epilogue is not None or row in phase.chunks:
        return "rows that run on over another axis are whole, with nothing behind them"
    runs = runs_on(node, group.flattened_outer, row, phase)
    return None if runs else "rows do not run on over that axis"


def refuse_window(group: LoopNest, phase: Phase) -> str | None:
    """Return why rows of a nest can't share what their windows read, or None."""
    (node,), window, dims = group.nodes, group.window, group.dims
    if group.flattened_outer is not None:
        return "rows of a window do not run on"
    if len(dims) < 3 or node.store.stride(dims[-1]) != 1 or guards.cuts(node, dims[-1]) != []:
        return "a window has no lanes that agree and are stored side by side"
    if dims[group.strip_level - 1] is not window.row or dims[-2] is not window.tap:
        return "a window has other rows or taps"
    if group.strip_level < 1 or window.tap in phase.chunks:
        return "taps of a window are emitted one by one"
    if set(dims[group.strip_level : -1]) != set(phase.inside(node.reduced)):
        return "loops inside a window are its taps"
    if bounds_of(node) is not None and padding_of(group, phase) is None:
        return "the padding of a window is not known from its loops"
    return None


def refuse_transposed(group: LoopNest, phase: Phase, vector_bytes: int) -> str | None:
    """Return why a nest can't be transposed in registers, or None."""
    if len(group.nodes) != 1 or group.rows != 1 or group.flattened_outer is not None:
        return "a transposed nest is of one node, in blocks of lanes"
    (node,) = group.nodes
    found = sides(node, vector_bytes)
    if found is None:
        return f"{node.stage.name} is not read along one axis and stored along another"
    if len(group.dims) < 2 or group.dims[-2:] != found or group.strip_level != len(group.dims) - 1:
        return "the last loops of a transposed nest are what is stored and what is read along"
    chunks = [phase.inner_extent(a) for a in found]
    if group.lanes != lanes_across(node, vector_bytes) or min(chunks) < group.lanes:
        return "blocks of a transposed nest are of whole registers"
    ragged = (a.extent % chunk for a, chunk in zip(found, chunks, strict=True))
    if len(phase.nodes) > 1 and any(ragged):
        return "a short last block reaches back, which a tile buffer has not"
    return None


def _refuse_epilogue(group: LoopNest, phase: Phase, space: Space, vector_bytes: int) -> str | None:
    behind = group.epilogue
    if behind.epilogue is not None or behind.rows != 1 or behind.window is not None:
        return "an epilogue is a nest of single points"
    if not 0 <= behind.strip_level < max(1, len(behind.dims)):
        return "strips stand inside loops that are not there"
    if any(set(phase.inside(n.atoms)) != set(behind.dims) for n in behind.nodes):
        return "an epilogue has other axes than its loops"
    if behind.dims[-1] is not group.dims[-1]:
        return "an epilogue has other lanes than its register tile"
    if reason := _refuse_order(behind, phase, space):
        return reason
    alone = replace(group, epilogue=None)
    follows = may_follow(behind, alone, space, vector_bytes)
    return None if follows else "what stands behind does not take accumulators as they are"
