"""What a launch takes: memory at the rate that the threads in flight can ask for, and latencies.

By Little's law bandwidth needs bytes in flight: 4.8 TB/s at 600 ns are 22 KB a multiprocessor.
The latencies are of H100 (arXiv 2402.13499, tables 4 to 7: global 480 to 740 cycles, shuffles and
shared memory 23 to 30).
"""

from __future__ import annotations

import math

from ...analysis.iteration_space import Access, Node
from ...device.cuda import SECTOR_BYTES, WARP, CudaDevice
from ...kernel_ir.expr import dtype_bytes
from ..facts.tiles import is_tiled
from ..plan.axes import FRAGMENT, Axis
from ..plan.kernel_plan import Phase, Plan
from ..plan.nest import HeldKey, Nest, held_key
from .occupancy import resident_threads

LAUNCH_NS = 2000.0
_EXPENSIVE = 10  # instructions of an exp; a special function takes a warp two issues
_PRODUCT = 1.25  # instructions of a term: one, and a part of the loads that its neighbours share
_WMMA = 0.6  # of the peak, by wmma's fragments (arXiv 2402.13499, section V)
_FRAGMENT_WORK = 8.0  # instructions of a fragment's product, and its part of the loads
_BLOCK_NS = 300.0  # until a block's first instruction and behind its last
_BESIDE = 0.05  # of what others hide: of equals the one with less besides is taken
_LOAD_NS, _BARRIER_NS, _SHUFFLE_NS, _SHARED_NS = 600.0, 30.0, 15.0, 20.0
_AHEAD = 4  # trips of a loop whose loads are in flight together: nvcc unrolls so far
_L1_BYTES_NS = 109.0  # of a multiprocessor: half of 128 bytes a cycle
_OF_L2 = 0.4  # of the time of memory (arXiv 2402.13499, table 5)
_ISSUE_NS = 0.6  # an instruction of a warp: 1.7 GHz, one a cycle of each of four schedulers


def estimate(plan: Plan, device: CudaDevice) -> float:
    """Return the ns of a kernel."""
    return sum(LAUNCH_NS + launch_ns(phase, device) for phase in plan.phases)


def launch_ns(phase: Phase, device: CudaDevice) -> float:
    """Return the ns of a launch once it runs, infinite if no block of it fits."""
    threads = resident_threads(phase, device)
    if not threads:
        return math.inf
    at_once = threads // phase.threads * device.sms
    waves = -(-phase.blocks // at_once)
    moved = sum(moved_bytes(nest, phase) for nest in phase.nests)
    block = _block_ns(phase)
    # A block's bytes are asked for in as many rounds as there are nests that load.
    rate = min(device.bandwidth, moved / phase.blocks * min(phase.blocks, at_once) / block * 1e9)
    issued = sum(_instructions(nest, phase) for nest in phase.nests) * phase.blocks
    compute = issued * _ISSUE_NS / (4 * min(device.sms, phase.blocks))
    asked = sum(requested_bytes(nest, phase) for nest in phase.nests)
    cached = asked / (_L1_BYTES_NS * min(device.sms, phase.blocks))
    tensor = sum(_tensor_ns(nest, device) for nest in phase.nests) * _spread_over(phase, device)
    parts = (moved / rate * 1e9, cached, compute, tensor, waves * block)
    return max(parts) + _BESIDE * sum(parts)


def _tensor_ns(nest: Nest, device: CudaDevice) -> float:
    """Return what tensor cores take, all of them at work."""
    if nest.warps is None:
        return 0.0
    terms = math.prod(atom.extent for atom in nest.nodes[0].atoms)
    return 2 * terms / (device.tensor_flops * _WMMA) * 1e9


def _spread_over(phase: Phase, device: CudaDevice) -> float:
    """Return how many times as long a launch takes whose blocks leave multiprocessors idle."""
    return -(-phase.blocks // device.sms) * device.sms / phase.blocks


def moved_bytes(nest: Nest, phase: Phase) -> float:
    """Return what a nest moves from and to memory, by whole sectors, in all blocks."""
    total, seen = 0.0, set()
    params = set(phase.space.kernel.params)
    for node in nest.nodes:
        for access in (*node.reads.values(), node.store):
            if access.tensor not in params:
                continue
            key = held_key(access, nest) or (access.tensor, access.index)
            if key in seen or _is_held(access, nest, phase):
                continue
            seen.add(key)
            total += _asked(access, node, nest) * _again(node, phase)
    return total


def requested_bytes(nest: Nest, phase: Phase) -> float:
    """Return what the warps of a nest ask of L1 in all blocks, by whole sectors."""
    params = set(phase.space.kernel.params)
    return sum(
        _requested(access, node, _way(access, node, nest, phase)) * _times(node, phase)
        for node in nest.nodes
        for access in (*node.reads.values(), node.store)
        if access.tensor in params and not _is_held(access, nest, phase)
    )


def _way(access: Access, node: Node, nest: Nest, phase: Phase) -> Nest:
    """Return the nest that loads what an access reads: its own, or one that stages it."""
    staged = (s.nest() for s in phase.staged if s.node is node and node.reads[s.load] is access)
    return next(staged, nest)


def _again(node: Node, phase: Phase) -> float:
    """Return how many times its bytes take the time of one: other blocks find them in L2."""
    return 1 + (_times(node, phase) - 1) * _OF_L2


def _times(node: Node, phase: Phase) -> int:
    """Return how many blocks do the same for a node."""
    return math.prod(axis.blocks for axis in phase.axes if not axis.meets(node.atoms))


def _is_held(access: Access, nest: Nest, phase: Phase) -> bool:
    """Return whether registers have what an access reads."""
    key = held_key(access, nest)
    return key in phase.held and _is_later(key, nest, phase)


def _is_later(key: HeldKey, nest: Nest, phase: Phase) -> bool:
    """Return whether an earlier nest has loaded what a key tells."""
    for before in phase.nests:
        if before is nest:
            return False
        if any(held_key(a, before) == key for n in before.nodes for a in n.reads.values()):
            return True
    return False


def _asked(access: Access, node: Node, nest: Nest) -> float:
    """Return the bytes of an access: what differs between positions, by whole sectors.

    What a block has side by side it finds in L1, however its threads ask for it.
    """
    size = dtype_bytes(access.tensor.dtype)
    moving = [a for a in node.atoms if access.strides.get(a) or a in access.opaque_atoms]
    run = 1
    for spread in sorted(nest.of(moving), key=lambda s: _step(access, s.axis)):
        if _step(access, spread.axis) == run:
            run *= spread.axis.block
    return math.prod(a.extent for a in moving) * max(size, SECTOR_BYTES / run)


def _requested(access: Access, node: Node, nest: Nest) -> float:
    """Return the bytes of the sectors that warps ask for, each time they do."""
    size = dtype_bytes(access.tensor.dtype)
    lanes, width, distinct, run = WARP, 1, 1, 1
    for spread in reversed(nest.walked()):
        step = WARP if access.opaque else _step(access, spread.axis)
        width = max(width, spread.width)
        own = min(lanes, spread.threads)
        if step == 1 and spread.width > 1:
            run *= spread.width
        if step:
            distinct *= own
            run *= own if step in (1, run) else 1
        lanes //= own
    atoms = node.spatial if access is node.store else node.atoms
    requests = math.prod(a.extent for a in atoms) / (WARP // lanes * width)
    elements = distinct * (width if run >= width else 1)
    sectors = max(1.0, elements * size / SECTOR_BYTES, distinct * width / run)
    return requests * sectors * SECTOR_BYTES


def _step(access: Access, axis: Axis) -> int:
    """Return how far apart neighbours along an axis are, 0 if they are the same."""
    moving = [a for a, s in access.strides.items() if s]
    return abs(access.strides.get(axis.view(moving)[-1], 0)) if axis.meets(moving) else 0


def _instructions(nest: Nest, phase: Phase) -> float:
    """Return what the warps of a block issue for a nest."""
    if nest.warps is not None:
        steps = phase.serial_axis().extent // FRAGMENT
        blocks = math.prod(-(-axis.block // FRAGMENT) for axis in _cut(nest, phase))
        return steps * blocks * _FRAGMENT_WORK
    trips = math.prod(s.trips * (s.axis.pieces if s.axis.serial else 1) for s in nest.walked())
    width = math.prod(s.width for s in nest.walked())
    work = 0.0
    for node in nest.nodes:
        if is_tiled(node.stage):
            work += width * _PRODUCT
            continue
        point = 2 + node.stage.light + _EXPENSIVE * node.stage.expensive
        work += width * point + 2 * len(node.reads)
    return trips * work * -(-phase.threads // WARP)


def _rounds(nest: Nest, phase: Phase) -> int:
    """Return how many times a thread waits for what it has asked memory for."""
    out = 1
    for spread in nest.walked():
        out *= 1 if phase.writes_out(spread, nest) else -(-spread.trips // _AHEAD)
    return out


def _cut(nest: Nest, phase: Phase) -> list[Axis]:
    """Return the axes of a product's rows and columns."""
    return [axis for axis in phase.axes if axis.meets(nest.nodes[0].spatial) and axis.block > 1]


def _block_ns(phase: Phase) -> float:
    """Return the latency of one block, alone."""
    total, params = _BLOCK_NS, set(phase.space.kernel.params)
    for nest in phase.nests:
        fresh = any(
            a.tensor in params and not _is_held(a, nest, phase)
            for n in nest.nodes
            for a in n.reads.values()
        )
        waits = _LOAD_NS * _rounds(nest, phase) if fresh else _SHARED_NS
        steps = phase.serial_axis().pieces if phase.in_steps(nest) else 1
        total += waits if phase.ahead and phase.fills_tiles(nest) else steps * waits
        total += _instructions(nest, phase) / max(1, phase.threads // WARP) * _ISSUE_NS
        for node in (n for n in nest.nodes if n.reduced and nest.warps is None):
            bits = phase.sum_bits(node)
            total += (bits % WARP).bit_count() * _SHUFFLE_NS
            if bits >= WARP:
                total += _BARRIER_NS + _SHARED_NS * (bits // WARP).bit_count()
        staged = any(each.node in nest.nodes for each in phase.staged)
        if staged or any(n in phase.shared for n in nest.nodes):
            total += _BARRIER_NS + _SHARED_NS
    return total
