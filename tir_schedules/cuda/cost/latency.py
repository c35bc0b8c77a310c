"""What a launch takes: memory at the rate that the threads in flight can ask for, and latencies.

By Little's law bandwidth needs bytes in flight: 4.8 TB/s at 600 ns are 22 KB a multiprocessor.
What each thing takes is in the device's profile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...analysis.iteration_space import Access, Node
from ...device.cuda import SECTOR_BYTES, WARP, CudaDevice, CudaProfile
from ...kernel_ir.expr import dtype_bytes
from ..facts.tiles import is_tiled
from ..plan.axes import FRAGMENT, Axis
from ..plan.fragments import fragments_of
from ..plan.kernel_plan import Phase, Plan
from ..plan.nest import HeldKey, Nest, held_key
from .assumed import ASSUMED
from .occupancy import resident_threads
from .unplanned import point_instructions


def estimate(plan: Plan, device: CudaDevice) -> float:
    """Return the ns of a kernel."""
    launches = plan.launches()
    return sum(device.profile.launch_ns + launch_ns(phases, device) for phases in launches)


def launch_ns(phases: Sequence[Phase], device: CudaDevice) -> float:
    """Return the ns of phases beside each other once they run, infinite if no block fits."""
    threads, profile = resident_threads(phases, device), device.profile
    if not threads:
        return math.inf
    at_once = threads // phases[0].threads * device.sms
    blocks = sum(phase.blocks for phase in phases)
    waves, busy = -(-blocks // at_once), min(device.sms, blocks)
    block = max(_block_ns(phase, profile) for phase in phases)
    nests = [(nest, phase) for phase in phases for nest in phase.nests]
    moved = sum(moved_bytes(nest, phase, profile) for nest, phase in nests)
    # A block's bytes are asked for in as many rounds as there are nests that load.
    rate = min(device.bandwidth, moved / blocks * min(blocks, at_once) / block * 1e9)
    issued = sum(_instructions(nest, phase) * phase.blocks for nest, phase in nests)
    compute = issued * profile.issue_ns / (4 * busy)
    asked = sum(requested_bytes(nest, phase) for nest, phase in nests)
    cached = asked / (profile.l1_bytes_ns * busy)
    idle = -(-blocks // device.sms) * device.sms / blocks
    tensor = sum(_tensor_ns(nest, phase, device) for nest, phase in nests) * idle
    shared = sum(_fragment_bytes(nest, phase) * phase.blocks for nest, phase in nests)
    shared /= profile.shared_bytes_ns * busy
    parts = (moved / rate * 1e9, cached, compute, tensor, shared, waves * block)
    return max(parts) + ASSUMED.beside * sum(parts)


def _tensor_ns(nest: Nest, phase: Phase, device: CudaDevice) -> float:
    """Return what tensor cores take, all of them at work."""
    if nest.warps is None:
        return 0.0
    flops = 2 * FRAGMENT**3 * _fragments(nest, phase) * phase.blocks
    return flops / (device.tensor_flops * device.profile.wmma_share) * 1e9


def _fragments(nest: Nest, phase: Phase) -> int:
    """Return how many fragments a block multiplies for a product."""
    made, (rows, columns) = fragments_of(nest, phase), nest.warps
    axis = phase.serial_axis(nest)
    return rows * made.down * columns * made.across * axis.pieces * axis.block // FRAGMENT


def _fragment_bytes(nest: Nest, phase: Phase) -> float:
    """Return what a block moves of shared memory for a product of tensor cores.

    Its warps load what their fragments take, and those that fill the tiles have stored it.
    """
    if nest.warps is None:
        return 0.0
    made, axis = fragments_of(nest, phase), phase.serial_axis(nest)
    (rows, columns), loads = nest.warps, made.down + made.across
    of_terms = rows * columns * loads + rows * made.down + columns * made.across
    terms = axis.pieces * axis.block // FRAGMENT
    return of_terms * terms * FRAGMENT**2 * dtype_bytes(made.left.stage.out.dtype)


def moved_bytes(nest: Nest, phase: Phase, profile: CudaProfile) -> float:
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
            total += _asked(access, node, nest) * _again(node, phase, profile)
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


def _again(node: Node, phase: Phase, profile: CudaProfile) -> float:
    """Return how many times its bytes take the time of one: other blocks find them in L2."""
    return 1 + (_times(node, phase) - 1) * profile.l2_share


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
        return _fragments(nest, phase) * ASSUMED.fragment
    trips = math.prod(s.trips * (s.axis.pieces if s.axis.serial else 1) for s in nest.walked())
    width = math.prod(s.width for s in nest.walked())
    work = 0.0
    for node in nest.nodes:
        if is_tiled(node.stage):
            work += width * ASSUMED.term
            continue
        work += width * point_instructions(node.stage) + 2 * len(node.reads)
    return trips * work * -(-phase.threads // WARP)


def _rounds(nest: Nest, phase: Phase) -> int:
    """Return how many times a thread waits for what it has asked memory for."""
    out = 1
    for spread in nest.walked():
        out *= 1 if phase.writes_out(spread, nest) else -(-spread.trips // ASSUMED.ahead)
    return out


def _block_ns(phase: Phase, profile: CudaProfile) -> float:
    """Return the latency of one block, alone."""
    total, params = profile.block_ns, set(phase.space.kernel.params)
    for nest in phase.nests:
        fresh = any(
            a.tensor in params and not _is_held(a, nest, phase)
            for n in nest.nodes
            for a in n.reads.values()
        )
        waits = profile.load_ns * _rounds(nest, phase) if fresh else profile.shared_ns
        steps = phase.serial_axis(nest).pieces if phase.in_steps(nest) else 1
        total += waits if phase.ahead and phase.fills_tiles(nest) else steps * waits
        total += _instructions(nest, phase) / max(1, phase.threads // WARP) * profile.issue_ns
        for node in (n for n in nest.nodes if n.reduced and nest.warps is None):
            bits = phase.sum_bits(node)
            total += (bits % WARP).bit_count() * profile.shuffle_ns
            if bits >= WARP:
                total += profile.barrier_ns + profile.shared_ns * (bits // WARP).bit_count()
        staged = any(each.node in nest.nodes for each in phase.staged)
        if staged or any(n in phase.shared for n in nest.nodes):
            total += profile.barrier_ns + profile.shared_ns
    return total
