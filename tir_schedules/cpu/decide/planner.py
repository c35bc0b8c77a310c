"""The stitch template's plan for a kernel: phases, tiles, loop nests, buffers. No TensorIR here.

Used twice: by the acceptance test on candidate groups, and before code is emitted. Source of the
scheme: BladeDISC's CPU stitch (sub-roots in per-tile buffers under one parallel loop) and AStitch
section 4 (global scheme: phases with barriers), with the tile chosen by shared spatial atoms.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...analysis.coalesce import coalesce
from ...analysis.iteration_space import Node, Space, atomize
from ...analysis.kernel_facts import is_contraction, is_large_contraction
from ...device import Device
from ...kernel_ir.alternatives import Alternatives, alternatives
from ...kernel_ir.expr import Tensor
from ...kernel_ir.stage import Kernel
from ...rewrites.inline import inline_stages
from ...rewrites.late_division import divide_late
from ...rewrites.mark_signs import mark_signs
from ...rewrites.softmax import drop_nan
from ...rewrites.widen import widen
from ..cost.latency import alone_ns
from ..cost.limits import most_tasks, region_ns, tile_limit
from ..cost.strips import extra_ns
from ..facts.register_tile import register_tile
from ..plan.kernel_plan import Guard, LoopGroup, Phase, Plan, buffer_bytes, most_alive
from .loop_nests import group_loops
from .row_chains import row_chain
from .streamed_stores import streamed_results
from .streaming_planner import plan_online
from .tile_sharing import shared_tiles
from .tiling import Tiling, choose_tiling


def plan_kernel(kernel: Kernel, device: Device) -> Plan | str:
    """Return how the template would run `kernel`, or why it can't."""
    if any(0 in p.shape for p in kernel.params):
        return "a tensor has no elements"
    if not kernel.outputs:
        return "no result is read"
    ways = alternatives(kernel)
    if ways is not None:
        return _guarded(ways, device)
    online = plan_online(kernel, device)
    if online is not None:
        return online
    reduced = divide_late(drop_nan(mark_signs(inline_stages(widen(kernel)))))
    space = coalesce(atomize(reduced))
    return plan_space(space, device)


def _guarded(ways: Alternatives, device: Device) -> Plan | str:
    """Return the plan of the usual way, with the other one behind a check of its operands."""
    if any(is_contraction(s) for s in ways.check.stages):
        return "what is checked is made in the kernel"
    kernels = (ways.check, ways.usual, *(() if ways.other is None else (ways.other,)))
    plans = [plan_kernel(kernel, device) for kernel in kernels]
    refused = [plan for plan in plans if isinstance(plan, str)]
    if refused:
        return refused[0]
    check, usual, *others = plans
    guard = Guard(check, ways.made, others[0] if others else None)
    return replace(usual, guards=(guard, *usual.guards))


def plan_space(space: Space, device: Device) -> Plan | str:
    """Return the plan of a kernel already in atoms.

    Phases are a matter of shape, never of threads: work is cut into them where it is worth threads,
    or where one phase would hold more than fits the cache.
    """
    work = work_regions(space.nodes, device)
    turns, deciding = device.profile.thresholds, device.deciding()
    parallel = device.threads > 1 and work >= turns.spread_regions
    if work < turns.cut_regions:
        whole = _plan(space, deciding, parallel, structure=False)
        if isinstance(whole, str) or whole.tile_bytes <= tile_limit(device):
            return whole if deciding == device else _plan(space, device, parallel, structure=False)
    return _plan(space, device, parallel, structure=True)


def _plan(space: Space, device: Device, parallel: bool, structure: bool) -> Plan | str:
    phases: list[Phase] = []
    for nodes, tiling in _partition(space, device, structure):
        phases.append(_phase(nodes, tiling, space, device))
        if tiling.partial:
            phases.append(_combine_phase(tiling.partial, space, device))
    if len(phases) > 1 and not structure:
        return "phases in a serial kernel"
    crossing, streamed = _crossing(space, phases), streamed_results(space, device)
    tile_bytes = max(_tile_bytes(p, space, crossing) for p in phases)
    tasks = max(min(p.tiles(), most_tasks(device)) for p in phases)
    return Plan(
        space,
        tuple(phases),
        parallel,
        tasks,
        crossing,
        tuple(t for t in crossing if not any(t is out for out in space.kernel.outputs)),
        streamed,
        _beyond_cache(_read(space.kernel), device),
        tuple(t for t in _beyond_cache(space.kernel.outputs, device) if t not in streamed),
        device.vector_bytes,
        tile_bytes,
        tile_limit(device),
    )


def work_regions(nodes: Iterable[Node], device: Device) -> float:
    """Return about what nodes take one thread, in parallel regions of two threads.

    Never of more: what is cut by it may not depend on the number of threads.
    """
    return sum(alone_ns(n.stage, device) for n in nodes) / region_ns(device)


def runs_serial(plan: Plan, device: Device) -> bool:
    """Return whether work that is worth cutting runs in phases of a single task."""
    alone = [p for p in plan.phases if not p.combine and (not plan.parallel or p.tiles() == 1)]
    work = work_regions((n for p in alone for n in p.nodes), device)
    return work >= device.profile.thresholds.cut_regions


def _partition(space: Space, device: Device, structure: bool) -> list[tuple[list[Node], Tiling]]:
    """Return the phases, each with a tiling that keeps the machine busy."""
    if not structure:
        return [(list(space.nodes), _one_tile(list(space.nodes), space, device))]
    deciding = device.deciding()
    parts = _parts(space, deciding)
    if deciding == device:
        return parts
    return [(nodes, _retiled(nodes, tiling, space, device)) for nodes, tiling in parts]


def _retiled(nodes: list[Node], decided: Tiling, space: Space, device: Device) -> Tiling:
    """Return the tiling for a device's threads; partial sums stay as they were decided."""
    tiling = choose_tiling(nodes, space, device)
    return decided if decided.partial or tiling.partial else tiling


def _parts(space: Space, device: Device) -> list[tuple[list[Node], Tiling]]:
    """Split the nodes into phases, each with a tiling."""
    out: list[tuple[list[Node], Tiling]] = []
    place: dict[int, int] = {}
    work = {id(n): work_regions((n,), device) for n in space.nodes}
    large = any(t.bytes > device.l2_bytes for t in space.kernel.touched)
    for node in space.nodes:
        alone = choose_tiling([node], space, device)
        # Not before its producers; an independent node in between ends no phase.
        made = (place[id(e.producer)] for e in space.incoming.get(id(node), ()))
        for number in range(max(made, default=0), len(out)):
            current, tiling = out[number]
            if _is_beside(node, current, space):
                continue
            nodes = [*current, node]
            joined = choose_tiling(nodes, space, device)
            spent = sum(work[id(n)] for n in nodes)
            enough = _worth_joining(tiling, alone, joined, spent, device)
            enough = enough or _holds_product(nodes, joined)
            apart = [(current, tiling), ([node], alone)]
            if enough and not (large and _strips_cost_more((nodes, joined), apart, space, device)):
                out[number] = (nodes, joined)
                place[id(node)] = number
                break
        else:
            place[id(node)] = len(out)
            out.append(([node], alone))
    return out


def _is_beside(node: Node, nodes: list[Node], space: Space) -> bool:
    """Return whether a product would share tiles with products that it does not wait for.

    Tiles of both would be of whole rows, for which the columns of neither are cut.
    """
    products = {id(n) for n in nodes if is_large_contraction(n.stage)}
    if not products or not is_large_contraction(node.stage):
        return False
    seen: set[int] = set()
    queue = [node]
    while queue:
        for edge in space.incoming.get(id(queue.pop()), ()):
            if id(edge.producer) in products:
                return False
            if id(edge.producer) not in seen:
                seen.add(id(edge.producer))
                queue.append(edge.producer)
    return True


def _one_tile(nodes: list[Node], space: Space, device: Device) -> Tiling:
    tiling = choose_tiling(nodes, space, device)
    if tiling.partial:
        return Tiling((), {})
    return tiling


def _worth_joining(
    before: Tiling, alone: Tiling, joined: Tiling, work: float, device: Device
) -> bool:
    """Return whether nodes of that much work have tiles enough together."""
    turns = device.profile.thresholds
    enough = min(turns.least_tiles, max(2, int(work / turns.tile_regions)))
    return joined.tiles() >= min(enough, max(before.tiles(), alone.tiles()))


def _holds_product(nodes: list[Node], joined: Tiling) -> bool:
    """Return whether a few tiles will do: one of a large product is work enough for a task.

    Its operand does not go through a barrier, and the evaluator sees idle threads. Not of tiles of
    some rows, unless products follow each other in them: what stands behind one product may as well
    be a phase of its own.
    """
    if joined.tiles() == 1:
        return False
    tiles = (register_tile(n) for n in nodes if is_large_contraction(n.stage))
    if any(t is not None and t.row not in joined.numbering() for t in tiles):
        return True
    return bool(row_chain(nodes, joined.numbering(), joined.chunks))


def _strips_cost_more(
    joined: tuple[list[Node], Tiling],
    apart: list[tuple[list[Node], Tiling]],
    space: Space,
    device: Device,
) -> bool:
    """Return whether one phase walks rows in strips at a higher price than two cross a barrier."""
    outputs = {id(t) for t in space.kernel.outputs}

    def extra(nodes: list[Node], tiling: Tiling) -> float:
        return extra_ns(nodes, tiling.tile, tiling.chunks, outputs, device)

    more = extra(*joined) - sum(extra(*part) for part in apart)
    (before, _), ([node], _) = apart
    made = {id(n.stage.out) for n in before} - outputs
    crossing = {id(t): t.bytes for a in node.reads.values() if id(t := a.tensor) in made}
    if sum(crossing.values()) > device.profile.thresholds.crossing_bytes:
        return False
    return more > region_ns(device)


def _phase(nodes: list[Node], tiling: Tiling, space: Space, device: Device) -> Phase:
    draft = Phase(
        tuple(nodes), tiling.tile, tiling.chunks, (), tiling.partial, walked=tiling.walked
    )
    return replace(draft, groups=group_loops(draft.nodes, space, draft, device))


def _combine_phase(partial: tuple[Node, ...], space: Space, device: Device) -> Phase:
    """Return the phase that adds up partial results: spatial loops only, one nest a node."""
    groups = []
    for node in partial:
        lanes, dims = 1, node.spatial
        if dims and node.store.stride(dims[-1]) == 1:
            lanes = 1 << (min(dims[-1].extent, device.vector_bytes // 4).bit_length() - 1)
        groups.append(LoopGroup((node,), dims, lanes, max(0, len(dims) - 1)))
    return Phase(partial, (), {}, tuple(groups), combine=partial)


def _crossing(space: Space, phases: list[Phase]) -> tuple[Tensor, ...]:
    """Return the tensors, results among them, that one phase writes and a later one reads."""
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    for number, phase in enumerate(phases):
        for node in phase.nodes:
            starts.setdefault(id(node), number)
            ends[id(node)] = number
    found = {}
    for edge in space.edges:
        if ends[id(edge.producer)] != starts[id(edge.consumer)]:
            found[id(edge.producer.stage.out)] = edge.producer.stage.out
    return tuple(found.values())


def _read(kernel: Kernel) -> tuple[Tensor, ...]:
    touched = {id(t) for t in kernel.touched}
    return tuple(t for t in kernel.inputs if id(t) in touched)


def _beyond_cache(tensors: tuple[Tensor, ...], device: Device) -> tuple[Tensor, ...]:
    """Return those that are larger than a core's cache."""
    return tuple(t for t in tensors if t.bytes > device.l2_bytes)


def _tile_bytes(phase: Phase, space: Space, crossing: tuple[Tensor, ...]) -> int:
    """Return the most bytes of tile buffers in use at a time: TVM lets others have their memory."""
    if phase.combine:
        return 0
    shared = shared_tiles(phase, space, crossing)
    spans: dict[int, tuple[int, int, int]] = {}
    place = {id(n): at for at, g in enumerate(phase.groups) for n in g.all_nodes()}
    kept = {id(n) for g in phase.once() for n in g.nodes}
    for node in phase.buffered(space, crossing):
        starts = place[id(node)]
        readers = [place.get(id(e.consumer), starts) for e in space.edges if e.producer is node]
        ends = len(phase.groups) if id(node) in kept else max(readers, default=starts)
        span = (starts, ends, buffer_bytes(node, phase))
        buffer = id(shared.get(node, node))
        known = spans.get(buffer, span)
        spans[buffer] = (known[0], max(known[1], span[1]), span[2])
    return most_alive(list(spans.values()))
