"""The stitch template's plan for a kernel: phases, tiles, loop nests, buffers. No TensorIR here.

Used twice: by the acceptance test on candidate groups, and before code is emitted. Source of the
scheme: BladeDISC's CPU stitch (sub-roots in per-tile buffers under one parallel loop) and AStitch
section 4 (global scheme: phases with barriers), with the tile chosen by shared spatial atoms.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...analysis.iteration_space import Node, Space
from ...analysis.kernel_facts import is_contraction, is_large_contraction
from ...device import CpuDevice
from ...kernel_ir.expr import Tensor
from ...kernel_ir.stage import Kernel
from ..cost.latency import alone_ns
from ..cost.limits import most_tasks, region_ns, tile_limit
from ..cost.strips import extra_ns
from ..facts.memory.layout import combine_phase, cross_phase, tile_bytes
from ..facts.products.register_tile import register_tile
from ..facts.products.row_chains import row_chain
from ..facts.reading import Reading
from ..plan.forms import APART, JUDGED, PHASES, STREAMING, TOGETHER, USUAL, Form
from ..plan.kernel_plan import Guard, Phase, Plan
from .attention.streaming_planner import plan_streaming
from .loop_nests import group_loops
from .tiles.tile_sharing import shared_tiles
from .tiles.tiling import Tiling, choose_tiling
from .traffic.streamed_stores import streamed_results


def plan_kernel(kernel: Kernel, device: CpuDevice) -> Plan | str:
    """Return how the template would run `kernel`, or why it can't."""
    return plan_reading(Reading(kernel), device)


def plan_reading(reading: Reading, device: CpuDevice, form: Form = USUAL) -> Plan | str:
    """Return how the template would run a kernel that is read already, or why it can't.

    What checks operands and what stands in for them then have the usual form.
    """
    kernel = reading.kernel
    if any(0 in p.shape for p in kernel.params):
        return "a tensor has no elements"
    if not kernel.outputs:
        return "no result is read"
    if reading.ways is not None:
        return _guarded(reading, device, form)
    streaming = None
    if form.attention != PHASES:
        streaming = plan_streaming(reading.attention, device, always=form.attention == STREAMING)
    return plan_space(reading.space, device, form) if streaming is None else streaming


def _guarded(reading: Reading, device: CpuDevice, form: Form) -> Plan | str:
    """Return the plan of the usual way, with the other one behind a check of its operands."""
    ways, other = reading.ways, reading.other
    if any(is_contraction(s) for s in ways.check.stages):
        return "what is checked is made in the kernel"
    plans = [plan_reading(reading.check, device), plan_reading(reading.usual, device, form)]
    plans += [plan_reading(each, device) for each in (() if other is None else (other,))]
    refused = [plan for plan in plans if isinstance(plan, str)]
    if refused:
        return refused[0]
    check, usual, *others = plans
    guard = Guard(check, ways.made, others[0] if others else None)
    return replace(usual, guards=(guard, *usual.guards))


def plan_space(space: Space, device: CpuDevice, form: Form = USUAL) -> Plan | str:
    """Return the plan of a kernel already in atoms.

    Phases are a matter of shape, never of threads: work is cut into them where it is worth threads,
    or where one phase would hold more than fits the cache.
    """
    work = work_regions(space.nodes, device)
    turns, deciding = device.profile.thresholds, device.deciding()
    parallel = device.threads > 1 and work >= turns.spread_regions
    if work < turns.cut_regions and form.cut == JUDGED:
        whole = _plan(space, deciding, parallel, False, form)
        if isinstance(whole, str) or whole.tile_bytes <= tile_limit(device):
            return whole if deciding == device else _plan(space, device, parallel, False, form)
    return _plan(space, device, parallel, True, form)


def _plan(
    space: Space, device: CpuDevice, parallel: bool, structure: bool, form: Form
) -> Plan | str:
    phases: list[Phase] = []
    for nodes, tiling in _partition(space, device, structure, form):
        phases.append(_phase(nodes, tiling, space, device, form))
        if tiling.partial:
            lanes = [_combine_lanes(node, device) for node in tiling.partial]
            phases.append(combine_phase(tiling.partial, lanes))
    if len(phases) > 1 and not structure:
        return "phases in a serial kernel"
    crossing, streamed = cross_phase(space, phases), streamed_results(space, device)
    most = max(tile_bytes_of(p, space, crossing) for p in phases)
    sums = any(p.partial for p in phases)
    tasks = max(min(p.tiles(), most_tasks(device, parallel, sums)) for p in phases)
    return Plan(
        space,
        tuple(phases),
        parallel,
        tasks,
        crossing,
        tuple(t for t in crossing if not any(t is out for out in space.kernel.outputs)),
        streamed,
        device.vector_bytes,
        most,
    )


def work_regions(nodes: Iterable[Node], device: CpuDevice) -> float:
    """Return about what nodes take one thread, in parallel regions of two threads.

    Never of more: what is cut by it may not depend on the number of threads.
    """
    return sum(alone_ns(n.stage, device) for n in nodes) / region_ns(device)


def runs_serial(plan: Plan, device: CpuDevice) -> bool:
    """Return whether work that is worth cutting runs in phases of a single task."""
    alone = [p for p in plan.phases if not p.combine and (not plan.parallel or p.tiles() == 1)]
    work = work_regions((n for p in alone for n in p.nodes), device)
    return work >= device.profile.thresholds.cut_regions


def _partition(
    space: Space, device: CpuDevice, structure: bool, form: Form
) -> list[tuple[list[Node], Tiling]]:
    """Return the phases, each with a tiling that keeps the machine busy."""
    if not structure:
        return [(list(space.nodes), _one_tile(list(space.nodes), space, device, form))]
    deciding = device.deciding()
    parts = _parts(space, deciding, form)
    if deciding == device:
        return parts
    return [(nodes, _retiled(nodes, tiling, space, device, form)) for nodes, tiling in parts]


def _retiled(
    nodes: list[Node], decided: Tiling, space: Space, device: CpuDevice, form: Form
) -> Tiling:
    """Return the tiling for a device's threads; partial sums stay as they were decided."""
    tiling = choose_tiling(nodes, space, device, form)
    return decided if decided.partial or tiling.partial else tiling


def _parts(space: Space, device: CpuDevice, form: Form) -> list[tuple[list[Node], Tiling]]:
    """Split the nodes into phases, each with a tiling."""
    out: list[tuple[list[Node], Tiling]] = []
    place: dict[Node, int] = {}
    work = {n: work_regions((n,), device) for n in space.nodes}
    large = any(t.bytes > device.l2_bytes for t in space.kernel.touched)
    for node in space.nodes:
        alone = choose_tiling([node], space, device, form)
        # Not before its producers; an independent node in between ends no phase.
        made = (place[e.producer] for e in space.incoming.get(node, ()))
        for number in () if form.cut == APART else range(max(made, default=0), len(out)):
            current, tiling = out[number]
            nodes = [*current, node]
            if form.cut == TOGETHER:
                joined = choose_tiling(nodes, space, device, form)
                if not joined.partial and not tiling.partial:
                    out[number] = (nodes, joined)
                    place[node] = number
                    break
                continue
            if _is_beside(node, current, space):
                continue
            joined = choose_tiling(nodes, space, device, form)
            spent = sum(work[n] for n in nodes)
            enough = _worth_joining(tiling, alone, joined, spent, device)
            enough = enough or _holds_product(nodes, joined)
            apart = [(current, tiling), ([node], alone)]
            if enough and not (large and _strips_cost_more((nodes, joined), apart, space, device)):
                out[number] = (nodes, joined)
                place[node] = number
                break
        else:
            place[node] = len(out)
            out.append(([node], alone))
    return out


def _is_beside(node: Node, nodes: list[Node], space: Space) -> bool:
    """Return whether a product would share tiles with products that it does not wait for.

    Tiles of both would be of whole rows, for which the columns of neither are cut.
    """
    products = {n for n in nodes if is_large_contraction(n.stage)}
    if not products or not is_large_contraction(node.stage):
        return False
    seen: set[Node] = set()
    queue = [node]
    while queue:
        for edge in space.incoming.get(queue.pop(), ()):
            if edge.producer in products:
                return False
            if edge.producer not in seen:
                seen.add(edge.producer)
                queue.append(edge.producer)
    return True


def _one_tile(nodes: list[Node], space: Space, device: CpuDevice, form: Form) -> Tiling:
    tiling = choose_tiling(nodes, space, device, form)
    if tiling.partial:
        return Tiling((), {})
    return tiling


def _worth_joining(
    before: Tiling, alone: Tiling, joined: Tiling, work: float, device: CpuDevice
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
    device: CpuDevice,
) -> bool:
    """Return whether one phase walks rows in strips at a higher price than two cross a barrier."""
    outputs = set(space.kernel.outputs)

    def extra(nodes: list[Node], tiling: Tiling) -> float:
        return extra_ns(nodes, tiling.tile, tiling.chunks, outputs, device)

    more = extra(*joined) - sum(extra(*part) for part in apart)
    (before, _), ([node], _) = apart
    made = {n.stage.out for n in before} - outputs
    crossing = {a.tensor for a in node.reads.values()} & made
    if sum(t.bytes for t in crossing) > device.profile.thresholds.crossing_bytes:
        return False
    return more > region_ns(device)


def _phase(nodes: list[Node], tiling: Tiling, space: Space, device: CpuDevice, form: Form) -> Phase:
    draft = Phase(
        tuple(nodes),
        tiling.tile,
        tiling.chunks,
        (),
        tiling.partial,
        serial_tile_axis=tiling.serial_tile_axis,
    )
    return replace(draft, groups=group_loops(draft.nodes, space, draft, device, form))


def _combine_lanes(node: Node, device: CpuDevice) -> int:
    """Return how many results of partial sums are added up at a time."""
    if not node.spatial or node.store.stride(node.spatial[-1]) != 1:
        return 1
    return 1 << (min(node.spatial[-1].extent, device.vector_bytes // 4).bit_length() - 1)


def tile_bytes_of(phase: Phase, space: Space, crossing: tuple[Tensor, ...]) -> int:
    """Return what the buffers of a phase take in each tile."""
    shared = {} if phase.combine else shared_tiles(phase, space, crossing)
    return tile_bytes(phase, space, crossing, shared)
