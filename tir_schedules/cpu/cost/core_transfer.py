"""What passes between kernels: results that another core has, and weights that come from memory.

The latency evaluator sees one kernel, whose tensors are in the caches that would hold them.
"""

from __future__ import annotations

from ...analysis.iteration_space import Access
from ...device import CpuDevice
from ...device.cpu import LINE_BYTES
from ...kernel_ir.expr import Tensor
from ..facts.products.register_tile import register_tile
from ..plan.kernel_plan import Phase, Plan
from .levels import level_of, read_ns_per_byte
from .overlap import OVERLAP


def handover_ns(maker: Plan, out: Tensor, reader: Plan, into: Tensor, device: CpuDevice) -> float:
    """Return what it takes to read what other threads have made: nothing if these keep their rows.

    `out` is the tensor as the one plan has it, `into` the same as the other has it.
    """
    if device.threads == 1:
        return 0.0
    write, read = _lead(maker, out), _lead(reader, into)
    if write is not None and write == read:
        return 0.0
    part = out.bytes if read is None else out.bytes / device.threads
    others = part * (1 - 1 / device.threads)
    return others * device.profile.handover(device.threads) * OVERLAP.scalars


def exchanged_ns(nbytes: int, device: CpuDevice) -> float:
    """Return what each thread takes to write its share of a state that the others have read."""
    return nbytes / LINE_BYTES / device.threads * OVERLAP.exchanged_line_ns


def fresh_ns(plan: Plan, between: int, device: CpuDevice) -> float:
    """Return what the weights of a plan's products add to it, for each thread those it reads.

    They come from where `between` bytes fit, which kernels have read since.
    """
    spent = 0.0
    for phase in plan.phases:
        for group in phase.products():
            weight = register_tile(group.nodes[0]).weight
            if any(weight.tensor is t for t in plan.space.kernel.inputs):
                shared = 1 if _span(weight, phase) is None else device.threads
                spent += weight.tensor.bytes / shared
    return spent * read_ns_per_byte(level_of(between, device), device.threads, device.profile)


def _lead(plan: Plan, tensor: Tensor) -> int | None:
    """Return how far threads are apart in a tensor, None if all of them are at all of it."""
    for phase in plan.phases:
        for node in phase.nodes:
            for access in (node.store, *node.reads.values()):
                if access.tensor is tensor:
                    return _span(access, phase)
    return None


def _span(access: Access, phase: Phase) -> int | None:
    """Return over how many elements an access moves along the tiles that threads share out."""
    if not phase.tile or not access.stride(phase.tile[0]):
        return None
    return access.stride(phase.tile[0]) * phase.tile[0].extent
