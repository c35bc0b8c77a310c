"""The machine a schedule is made for: threads, caches and vector registers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from tvm.target import Target
from tvm_ffi import get_global_func

from ..host import available_cpus, host_caches, host_mcpu
from .profile import Profile, default_profile

LINE_BYTES = 64  # of all x86 CPUs
PAGE_BYTES = 4096  # a way of L1: its sets are picked by what an address is within a page
_DECIDING_THREADS = 2  # the count of which every profile has figures
# A cache that is not this machine's is taken as small as any core of that vector width has it:
# Skylake-SP for 64 bytes (Intel 64 and IA-32 Optimization Reference Manual, table 2-6), Haswell
# for 32, Nehalem for 16. (L1d, L2, L3 of one core's share of a small part.)
_CONSERVATIVE_CACHES = {
    64: (32 << 10, 1 << 20, 8 << 20),
    32: (32 << 10, 256 << 10, 4 << 20),
    16: (32 << 10, 256 << 10, 2 << 20),
}


@dataclass(frozen=True)
class CpuDevice:
    """What a schedule may know of a CPU. L1 and L2 are one core's, L3 is what its cores share.

    `profile` is what the CPU was measured to do, or what is guessed of it.
    """

    mcpu: str
    threads: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    vector_bytes: int
    profile: Profile = field(compare=False, repr=False)
    kind: ClassVar[str] = "llvm"  # of TVM's target

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise ValueError(f"threads must be at least 1, got {self.threads}")

    def deciding(self) -> CpuDevice:
        """Return the device for which is decided what shows in results, however many threads run.

        What shares a kernel, and which sums are added up in parts, shows in how they are rounded.
        """
        return replace(self, threads=_DECIDING_THREADS)

    @classmethod
    def detect(
        cls, target: Target, threads: int | None = None, profile: Profile | None = None
    ) -> CpuDevice:
        """Describe the CPU of an llvm `target`; caches are measured only if it is this machine.

        `threads` defaults to the target's num-cores, then to the CPUs this process may use;
        `profile` to the shipped one of that CPU.
        """
        config = target.export()
        mcpu = str(config.get("mcpu") or "generic")
        vector_bytes = vector_bytes_of(llvm_features(target))
        caches = _CONSERVATIVE_CACHES[vector_bytes]
        if mcpu == host_mcpu():
            caches = tuple(own or safe for own, safe in zip(host_caches(), caches, strict=True))
        threads = threads or int(config.get("num-cores") or 0) or available_cpus()
        profile = profile or default_profile(mcpu, vector_bytes)
        return cls(mcpu, threads, *caches, vector_bytes, profile)


def llvm_features(target: Target) -> frozenset[str]:
    """Return LLVM's names of the CPU features code for `target` may use."""
    return frozenset(str(name) for name in get_global_func("target.llvm_get_cpu_features")(target))


def vector_bytes_of(features: frozenset[str]) -> int:
    """Return the widest float register (TVM's llvm_get_vector_width says 64 for every CPU)."""
    if "avx512f" in features:
        return 64
    return 32 if "avx" in features else 16
