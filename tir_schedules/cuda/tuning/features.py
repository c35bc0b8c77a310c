"""A GPU's plan in numbers: what a model learns from that predicts how long it takes.

The kernel's summary, the cost model's terms, and what was decided, most of it for the launch that
visits most points. Sizes are in powers of two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...device.cuda import WARP, CudaDevice
from ...kernel_ir.expr import dtype_bytes
from ..cost.latency import estimate, launch_ns, moved_bytes, requested_bytes
from ..cost.occupancy import registers_of, resident_threads
from ..plan.axes import Spread
from ..plan.kernel_plan import Phase, Plan
from ..plan.nest import Nest
from ..plan.shared import block_bytes

Feature = Iterator[tuple[str, float]]


def features(plan: Plan, device: CudaDevice) -> dict[str, float]:
    """Return the numbers of a plan by their names."""
    heaviest = max(plan.launches(), key=lambda phases: sum(map(_points_of, phases)))
    found = [*_of_kernel(plan, device), *_of_plan(plan, device), *_of_launch(heaviest, device)]
    phase = max(heaviest, key=_points_of)
    found += _of_nest(max(phase.nests, key=_points), phase)
    return dict(found)


def predicted_ns(plan: Plan, device: CudaDevice) -> float:
    """Return what a call of the plan's kernel takes by the cost model."""
    return estimate(plan, device)


_ENDLESS = 2.0**60  # ns of a launch of which no block fits: nvcc keeps its registers in memory


def _log(value: float) -> float:
    return math.log2(min(max(value, 1.0), _ENDLESS))


def _of_kernel(plan: Plan, device: CudaDevice) -> Feature:
    kernel = plan.kernel
    domains = [stage.domain for stage in kernel.stages]
    reduced = [math.prod(a.extent for a in s.reduced) for s in kernel.stages if s.reduced]
    nbytes = sum(tensor.bytes for tensor in kernel.touched)
    yield "stages", len(kernel.stages)
    yield "reductions", len(reduced)
    yield "params", len(kernel.params)
    yield "item bytes", max(dtype_bytes(tensor.dtype) for tensor in kernel.params)
    yield "bytes", _log(nbytes)
    yield "bytes of L2", _log(nbytes) - _log(device.l2_bytes)
    yield "bytes of outputs", _log(sum(tensor.bytes for tensor in kernel.outputs))
    yield "points", _log(sum(domains))
    yield "longest reduction", _log(max(reduced, default=0))
    yield "operations", _log(sum(s.domain * (1 + s.light) for s in kernel.stages))
    yield "expensive operations", _log(sum(s.domain * s.expensive for s in kernel.stages))


def _of_plan(plan: Plan, device: CudaDevice) -> Feature:
    total = estimate(plan, device)
    launches = plan.launches()
    yield "predicted", _log(total)
    yield "launches", len(launches)
    yield "launching", len(launches) * device.profile.launch_ns / total
    yield "phases beside others", sum(phase.beside for phase in plan.phases)
    yield "workspace bytes", _log(sum(tensor.bytes for tensor in plan.workspace))
    yield "nests", sum(len(phase.nests) for phase in plan.phases)


def _of_launch(phases: tuple[Phase, ...], device: CudaDevice) -> Feature:
    threads, blocks = phases[0].threads, sum(phase.blocks for phase in phases)
    resident = resident_threads(phases, device)
    nests = [(nest, phase) for phase in phases for nest in phase.nests]
    moved = sum(moved_bytes(nest, phase, device.profile) for nest, phase in nests)
    asked = sum(requested_bytes(nest, phase) for nest, phase in nests)
    at_once = max(1, resident // threads) * device.sms
    yield "launch predicted", _log(launch_ns(phases, device))
    yield "blocks", _log(blocks)
    yield "threads", _log(threads)
    yield "occupancy", resident / device.threads
    yield "waves", _log(blocks / at_once)
    yield "last wave", blocks / at_once / math.ceil(blocks / at_once)
    yield "bytes moved", _log(moved)
    yield "bytes asked of moved", _log(asked) - _log(moved)
    yield "shared bytes", _log(block_bytes(*phases))
    yield "registers", max(map(registers_of, phases))
    yield "in registers", sum(len(phase.registers) for phase in phases)
    yield "in shared memory", sum(len(phase.shared) for phase in phases)
    yield "loaded once", sum(key.words for phase in phases for key in phase.held)
    yield "staged", sum(len(phase.staged) for phase in phases)
    yield "ahead", any(phase.ahead for phase in phases)
    yield "unrolls", max(phase.unrolls for phase in phases)
    yield "steps", _log(max((a.pieces for p in phases for a in p.axes if a.serial), default=1))


def _of_nest(nest: Nest, phase: Phase) -> Feature:
    vector = nest.vector()
    width = 1 if vector is None else vector.width
    yield "tensor cores", nest.warps is not None
    yield "width", width
    yield "vector bytes", width * max(dtype_bytes(n.stage.value.dtype) for n in nest.nodes)
    for number, spread in enumerate(reversed(nest.walked())):
        if number < 3:
            yield f"threads {number}", _log(spread.threads)
            yield f"trips {number}", _log(spread.trips)
            yield f"idle {number}", 1 - spread.axis.extent / (spread.axis.pieces * _span(spread))
    sums = [phase.sum_bits(n) for n in nest.nodes if n.reduced and nest.warps is None]
    yield "shuffles", max(((bits % WARP).bit_count() for bits in sums), default=0)
    yield "warps of a sum", max(((bits // WARP).bit_count() for bits in sums), default=0)


def _span(spread: Spread) -> int:
    """Return how many positions the threads of a block go over."""
    return spread.trips * spread.threads * spread.width


def _points(nest: Nest) -> int:
    return sum(node.stage.domain for node in nest.nodes)


def _points_of(phase: Phase) -> int:
    return sum(map(_points, phase.nests))
