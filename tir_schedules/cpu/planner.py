"""The stitch template's plan for a kernel: phases, tiles, loop nests, buffers. No TensorIR here.

Used twice: by the acceptance test on candidate groups, and before code is emitted. Source of the
scheme: BladeDISC's CPU stitch (sub-roots in per-tile buffers under one parallel loop) and AStitch
section 4 (global scheme: phases with barriers), with the tile chosen by shared spatial atoms.
"""

from __future__ import annotations

from ..analysis.atoms import Node, Space, atomize
from ..analysis.coalesce import coalesce
from ..analysis.expr import Tensor
from ..analysis.inline import inline_stages
from ..analysis.stage import Kernel
from ..analysis.widen import widen
from ..device import Device
from .loops import group_loops
from .plan import LoopGroup, Phase, Plan, buffer_bytes
from .streaming import can_stream
from .tiling import WANTED_TILES, Tiling, choose_tiling

# By `estimate_ns`, which is up to twice what is measured: from the first on, the tiles a kernel has
# are spread over threads (4 to 8 us of work; a region costs 0.5 to 1, `tvm-stitch calibrate`); from
# the second on it is cut so that it has tiles.
SPREAD_NS = 8_000
PARALLEL_NS = 60_000
_MAX_TASKS = 64
_TILE_NS = 50_000  # a tile of that much work is not worth splitting at the price of a barrier


def plan_kernel(kernel: Kernel, device: Device) -> Plan | str:
    """Return how the template would run `kernel`, or why it can't."""
    if any(0 in p.shape for p in kernel.params):
        return "a tensor has no elements"
    if not kernel.outputs:
        return "no result is read"
    reduced = inline_stages(widen(kernel))
    space = coalesce(atomize(reduced))
    return plan_space(space, device)


def plan_space(space: Space, device: Device) -> Plan | str:
    """Return the plan of a kernel already in atoms.

    Phases are a matter of shape, never of threads: work is cut into them where it is worth threads,
    or where one phase would hold more than fits the cache.
    """
    work = sum(estimate_ns(n) for n in space.nodes)
    parallel = device.threads > 1 and work >= SPREAD_NS
    if work < PARALLEL_NS:
        whole = _plan(space, device, parallel, structure=False)
        if isinstance(whole, str) or whole.tile_bytes <= tile_limit(device):
            return whole
    return _plan(space, device, parallel, structure=True)


def tile_limit(device: Device) -> int:
    """Return the bytes of buffers a tile may hold: half of L2, the rest is for what streams by."""
    return device.l2_bytes // 2


def _plan(space: Space, device: Device, parallel: bool, structure: bool) -> Plan | str:
    phases: list[Phase] = []
    for nodes, tiling in _partition(space, device, structure):
        phases.append(_phase(nodes, tiling, space, device))
        if tiling.partial:
            phases.append(_combine_phase(tiling.partial, space, device))
    if len(phases) > 1 and not structure:
        return "phases in a serial kernel"
    workspace = _workspace(space, phases)
    tile_bytes = max(_tile_bytes(p, space) for p in phases)
    tasks = max(min(p.tiles(), max(_MAX_TASKS, 4 * device.threads)) for p in phases)
    return Plan(
        space,
        tuple(phases),
        parallel,
        tasks,
        workspace,
        _streamed(space, device),
        _fetched(space, device),
        device.vector_bytes,
        tile_bytes,
        tile_limit(device),
    )


def estimate_ns(node: Node) -> float:
    """Return a rough serial time of a node on one core.

    Cheap vector operations at about 30 a ns, transcendental polynomials at 0.25 ns, and 0.04 ns a
    byte-quad from cache: Zen 4 and Zen 5 figures of `scripts/bench_memory.py`.
    """
    per_point = 0.05 + 0.03 * node.stage.light + 0.25 * node.stage.expensive
    return per_point * node.stage.domain


def _partition(space: Space, device: Device, structure: bool) -> list[tuple[list[Node], Tiling]]:
    """Split the nodes into phases, each with a tiling that keeps the machine busy."""
    out: list[tuple[list[Node], Tiling]] = []
    place: dict[int, int] = {}
    producers: dict[int, list[Node]] = {}
    for edge in space.edges:
        producers.setdefault(id(edge.consumer), []).append(edge.producer)
    for node in space.nodes:
        alone = choose_tiling([node], space.edges, device)
        # Not before its producers; an independent node in between ends no phase.
        first = max((place[id(p)] for p in producers.get(id(node), ())), default=0)
        for number in range(first, len(out)):
            current, tiling = out[number]
            joined = choose_tiling([*current, node], space.edges, device)
            if _worth_joining(tiling, alone, joined, current, node, structure):
                out[number] = ([*current, node], joined)
                place[id(node)] = number
                break
        else:
            place[id(node)] = len(out)
            out.append(([node], alone))
    if structure:
        return out
    return [(list(space.nodes), _one_tile(list(space.nodes), space, device))]


def _one_tile(nodes: list[Node], space: Space, device: Device) -> Tiling:
    tiling = choose_tiling(nodes, space.edges, device)
    if tiling.partial:
        return Tiling((), {})
    return tiling


def _worth_joining(
    before: Tiling,
    alone: Tiling,
    joined: Tiling,
    current: list[Node],
    node: Node,
    structure: bool,
) -> bool:
    if not structure:
        return True
    work = sum(estimate_ns(n) for n in (*current, node))
    enough = min(WANTED_TILES // 4, max(2, int(work / _TILE_NS)))
    return joined.tiles() >= min(enough, max(before.tiles(), alone.tiles()))


def _phase(nodes: list[Node], tiling: Tiling, space: Space, device: Device) -> Phase:
    draft = Phase(tuple(nodes), tiling.tile, tiling.chunks, (), tiling.partial)
    groups = group_loops(draft.nodes, space.edges, draft, device)
    return Phase(draft.nodes, draft.tile, draft.chunks, groups, draft.partial)


def _combine_phase(partial: tuple[Node, ...], space: Space, device: Device) -> Phase:
    """Return the phase that adds up partial results: spatial loops only, one nest a node."""
    groups = []
    for node in partial:
        lanes, dims = 1, node.spatial
        if dims and node.store.stride(dims[-1]) == 1:
            lanes = 1 << (min(dims[-1].extent, device.vector_bytes // 4).bit_length() - 1)
        groups.append(LoopGroup((node,), dims, lanes, max(0, len(dims) - 1)))
    return Phase(partial, (), {}, tuple(groups), combine=partial)


def _workspace(space: Space, phases: list[Phase]) -> tuple[Tensor, ...]:
    """Return intermediates that one phase writes and a later one reads."""
    outputs = {id(t) for t in space.kernel.outputs}
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    for number, phase in enumerate(phases):
        for node in phase.nodes:
            starts.setdefault(id(node), number)
            ends[id(node)] = number
    found = {}
    for edge in space.edges:
        tensor = edge.producer.stage.out
        if id(tensor) not in outputs and ends[id(edge.producer)] != starts[id(edge.consumer)]:
            found[id(tensor)] = tensor
    return tuple(found.values())


def _streamed(space: Space, device: Device) -> tuple[Tensor, ...]:
    """Return the outputs that fit no cache and that the kernel does not read again."""
    if device.vector_bytes < 32:
        return ()
    read = {id(ld.tensor) for s in space.kernel.stages for ld in s.loads()}
    return tuple(
        t
        for t in space.kernel.outputs
        if t.bytes >= device.l3_bytes and id(t) not in read and can_stream(t.dtype)
    )


def _fetched(space: Space, device: Device) -> tuple[Tensor, ...]:
    """Return the inputs that are larger than a core's cache."""
    return tuple(t for t in space.kernel.inputs if t.bytes > device.l2_bytes)


def _tile_bytes(phase: Phase, space: Space) -> int:
    if phase.combine:
        return 0
    free = {id(t) for t in space.kernel.outputs} | phase.registers(space)
    free |= {id(n.stage.out) for n in phase.partial}
    return sum(buffer_bytes(n, phase) for n in phase.nodes if id(n.stage.out) not in free)
