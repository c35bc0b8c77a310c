"""What does not stay in a core's cache from one run of a kernel to the next."""

from __future__ import annotations

from ...device import CpuDevice
from ...kernel_ir.expr import Tensor
from ...kernel_ir.stage import Kernel


def streaming_inputs(kernel: Kernel, device: CpuDevice) -> tuple[Tensor, ...]:
    """Return the inputs that a kernel reads and that are larger than L2."""
    touched = set(kernel.touched)
    return tuple(t for t in kernel.inputs if t in touched and t.bytes > device.l2_bytes)


def write_allocated(
    kernel: Kernel, streamed: tuple[Tensor, ...], device: CpuDevice
) -> tuple[Tensor, ...]:
    """Return the results larger than L2 that go through caches: lines are read to be written."""
    large = (t for t in kernel.outputs if t.bytes > device.l2_bytes)
    return tuple(t for t in large if not any(t is each for each in streamed))
