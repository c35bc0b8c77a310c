"""Which results are stored past the caches: those that none can hold.

A plain store to memory moves every line twice (read for ownership, write back).
"""

from __future__ import annotations

from ....analysis.iteration_space import Node, Space
from ....device import LINE_BYTES, CpuDevice
from ....kernel_ir.expr import Tensor, dtype_bytes
from ...facts.memory.streamed_stores import may_stream


def streamed_results(space: Space, device: CpuDevice) -> tuple[Tensor, ...]:
    """Return the outputs that no cache will hold and that the kernel does not read again.

    Those larger than L3, and of a share of it where they do not stay there: what the kernel moves
    is about as much as fits, and it does little with each byte. With a third of L3 attention takes
    1 to 5 % less, with what follows it -1 to 4, a 1x1 convolution of 64 channels 6. Products of
    many steps wait for no line that they write.
    """
    turns = device.profile.thresholds
    least, moved = device.l3_bytes, sum(p.bytes for p in space.kernel.touched)
    steps = sum(n.stage.domain for n in space.nodes)
    if moved >= turns.streamed_moved * device.l3_bytes and steps <= turns.streamed_steps * moved:
        least = least_streamed(device)
    return tuple(
        t
        for t in space.kernel.outputs
        if t.bytes >= least
        and may_stream(t, space, device.vector_bytes)
        and _begins_lines(space.producer(t))
    )


def least_streamed(device: CpuDevice) -> float:
    """Return the bytes of the smallest result that the caches may not keep."""
    return device.profile.thresholds.streamed_share * device.l3_bytes


def _begins_lines(node: Node) -> bool:
    """Return whether each row of a result begins a line of the cache.

    A line that is in part streamed is written twice: softmax of rows of 392 elements took 1.4 times
    as long, LayerNorm of 1001 1.15 times (Zen 4).
    """
    line = LINE_BYTES // dtype_bytes(node.stage.out.dtype)
    steps = (abs(node.store.stride(a) or 0) for a in node.spatial if a.extent > 1)
    return all(step == 1 or step % line == 0 for step in steps)
