"""An NVIDIA GPU that a schedule is made for: its multiprocessors, and what one holds.

Figures are NVIDIA's: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"
(threads, registers, shared memory), and the tuning guides and data sheets of A100, A10, L40S, H100
and H200 (multiprocessors, L2, bandwidth).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tvm.target import Target

WARP = 32
SECTOR_BYTES = 32  # what memory moves at the least
MOST_THREADS = 1024  # of a block, on any of them
STATIC_SHARED = 48 << 10  # what a block has without asking for more
VECTOR_BYTES = 16  # of one thread's widest load


@dataclass(frozen=True)
class CudaDevice:
    """What a schedule may know of a GPU; bytes and counts are of one multiprocessor (`sm`).

    `bandwidth` is of its memory, in bytes a second.
    """

    arch: str
    sms: int
    threads: int
    registers: int
    shared_bytes: int
    block_shared_bytes: int
    l2_bytes: int
    bandwidth: float
    kind: ClassVar[str] = "cuda"  # of TVM's target

    @classmethod
    def of(cls, target: Target) -> CudaDevice:
        """Return the GPU of a cuda `target`, by its arch.

        Raises: ValueError for an arch without figures.
        """
        arch = str(target.export().get("arch") or "")
        if arch not in _KNOWN:
            raise ValueError(f"no figures of {arch or 'a GPU without arch'}: {', '.join(_KNOWN)}")
        return _KNOWN[arch]


_KNOWN = {
    device.arch: device
    for device in (
        CudaDevice("sm_80", 108, 2048, 65536, 164 << 10, 163 << 10, 40 << 20, 1.555e12),  # A100
        CudaDevice("sm_86", 72, 1536, 65536, 100 << 10, 99 << 10, 6 << 20, 0.6e12),  # A10
        CudaDevice("sm_89", 142, 1536, 65536, 100 << 10, 99 << 10, 96 << 20, 0.864e12),  # L40S
        CudaDevice("sm_90", 132, 2048, 65536, 228 << 10, 227 << 10, 50 << 20, 4.8e12),  # H200
    )
}
