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
class CudaProfile:
    """What a GPU takes for what the cost model counts: assumed, for no GPU was at hand.

    Of the order that is reported of H100. Times in ns: of a launch, of a block beside its work, of
    a load from memory, a barrier, a shuffle, an access of shared memory, an instruction of a warp
    (one a cycle of each of four schedulers). `l1_bytes_ns` are of a multiprocessor, half of 128
    bytes a cycle, `shared_bytes_ns` all of them. Reading again what L2 has takes `l2_share` of the
    time of memory, wmma reaches `wmma_share` of the tensor cores' peak.
    """

    launch_ns: float = 2000.0
    block_ns: float = 300.0
    load_ns: float = 600.0
    barrier_ns: float = 30.0
    shuffle_ns: float = 15.0
    shared_ns: float = 20.0
    issue_ns: float = 0.6
    l1_bytes_ns: float = 109.0
    shared_bytes_ns: float = 218.0
    l2_share: float = 0.4
    wmma_share: float = 0.6


@dataclass(frozen=True)
class CudaDevice:
    """What a schedule may know of a GPU; bytes and counts are of one multiprocessor (`sm`).

    `bandwidth` is of its memory, in bytes a second; `tensor_flops` a second are those of halves.
    """

    arch: str
    sms: int
    threads: int
    blocks: int
    shared_bytes: int
    block_shared_bytes: int
    l2_bytes: int
    bandwidth: float
    tensor_flops: float
    registers: int = 65536
    thread_registers: int = 255
    register_grain: int = 8  # registers of a thread are given by so many
    profile: CudaProfile = CudaProfile()
    kind: ClassVar[str] = "cuda"  # of TVM's target

    def deciding(self) -> CudaDevice:
        """Return the device for which is decided what shows in results: the same everywhere."""
        return self

    @classmethod
    def of(cls, target: Target) -> CudaDevice | None:
        """Return the GPU of a cuda `target`, by its arch, None if there are no figures of it."""
        return _KNOWN.get(str(target.export().get("arch") or ""))


_A100 = (108, 2048, 32, 164 << 10, 163 << 10, 40 << 20, 1.555e12, 312e12)
_A10 = (72, 1536, 16, 100 << 10, 99 << 10, 6 << 20, 0.6e12, 125e12)
_L40S = (142, 1536, 24, 100 << 10, 99 << 10, 96 << 20, 0.864e12, 362e12)
_H200 = (132, 2048, 32, 228 << 10, 227 << 10, 50 << 20, 4.8e12, 989e12)
_FIGURES = {"sm_80": _A100, "sm_86": _A10, "sm_89": _L40S, "sm_90": _H200}
_KNOWN = {arch: CudaDevice(arch, *figures) for arch, figures in _FIGURES.items()}
ARCHS = tuple(_KNOWN)
