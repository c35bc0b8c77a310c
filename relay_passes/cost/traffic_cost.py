"""The delta-evaluator: what one kernel instead of several gains, from tensors' bytes alone.

Source of the method: FusionStitching, section 5.4: saved memory access through measured bandwidths,
plus saved calls. It reads no plan of a kernel; a backend judges those, once a plan is chosen.
"""

from __future__ import annotations

from tir_schedules.backend import backend
from tir_schedules.device import Device
from tir_schedules.kernel_ir.expr import Tensor
from tir_schedules.kernel_ir.stage import Kernel


class TrafficCost:
    """Times in ns that sum over the parts of a kernel, of one thread where a backend has those."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._costs = backend(device).costs
        self._work: dict[Kernel, float] = {}

    def crossing_ns(self, tensor: Tensor) -> float:
        """Return the time to write a tensor or to read it, in the cache that would hold it.

        Between two kernels there is time to read as much again: half of a cache counts.
        """
        return tensor.bytes * self._costs.read_ns(2 * tensor.bytes, self._device)

    def work_ns(self, kernel: Kernel) -> float:
        """Return the arithmetic of an op."""
        if kernel not in self._work:
            self._work[kernel] = self._costs.arithmetic_ns(kernel.stages, self._device)
        return self._work[kernel]

    def kernel_ns(self, work: float, traffic: float) -> float:
        """Return the time of a kernel of that much arithmetic and traffic, threads and call."""
        return self._costs.kernel_ns(work, traffic, self._device)
