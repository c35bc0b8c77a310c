"""The machine a schedule is made for: threads, caches and vector registers."""

from __future__ import annotations

import functools
import os
import platform
from dataclasses import dataclass
from pathlib import Path

from tvm.target import Target
from tvm_ffi import get_global_func

# A cache that is not this machine's is taken as small as any core of that vector width has it:
# Skylake-SP for 64 bytes (Intel 64 and IA-32 Optimization Reference Manual, table 2-6), Haswell
# for 32, Nehalem for 16. (L1d, L2, L3 of one core's share of a small part.)
_CONSERVATIVE_CACHES = {
    64: (32 << 10, 1 << 20, 8 << 20),
    32: (32 << 10, 256 << 10, 4 << 20),
    16: (32 << 10, 256 << 10, 2 << 20),
}
_L3_BYTES_A_CPU = 32 << 20


@dataclass(frozen=True)
class Device:
    """What a schedule may know of a CPU. L1 and L2 are one core's, L3 is what its cores share."""

    mcpu: str
    threads: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    vector_bytes: int

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise ValueError(f"threads must be at least 1, got {self.threads}")

    @classmethod
    def detect(cls, target: Target, threads: int | None = None) -> Device:
        """Describe the CPU of an llvm `target`; caches are measured only if it is this machine.

        `threads` defaults to the target's num-cores, then to the CPUs this process may use.
        """
        config = target.export()
        mcpu = str(config.get("mcpu") or "generic")
        vector_bytes = vector_bytes_of(llvm_features(target))
        caches = _CONSERVATIVE_CACHES[vector_bytes]
        if mcpu == host_mcpu():
            caches = tuple(own or safe for own, safe in zip(host_caches(), caches, strict=True))
        threads = threads or int(config.get("num-cores") or 0) or available_cpus()
        return cls(mcpu, threads, *caches, vector_bytes)


def host_mcpu() -> str:
    """Return LLVM's name of this machine's CPU."""
    return str(get_global_func("target.llvm_get_system_cpu")())


@functools.cache
def host_name() -> str:
    """Return the CPU's model as the system names it."""
    lines = _read(Path("/proc/cpuinfo")).splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def llvm_features(target: Target) -> frozenset[str]:
    """Return LLVM's names of the CPU features code for `target` may use."""
    return frozenset(str(name) for name in get_global_func("target.llvm_get_cpu_features")(target))


def vector_bytes_of(features: frozenset[str]) -> int:
    """Return the widest float register (TVM's llvm_get_vector_width says 64 for every CPU)."""
    if "avx512f" in features:
        return 64
    return 32 if "avx" in features else 16


def available_cpus() -> int:
    """Return how many CPUs this process may use: its affinity, capped by its cgroup's quota."""
    cpus = len(os.sched_getaffinity(0))
    quota = _cgroup_cpus()
    return max(1, min(cpus, quota) if quota else cpus)


@functools.cache
def host_caches() -> tuple[int, int, int]:
    """Return bytes of L1d, L2 and L3 of a CPU this process may use; 0 where sysfs has none.

    The L3 is at most 32 MiB for each CPU that shares it: a small virtual machine is told the whole
    socket's (480 MiB for two CPUs, of which 64 to 128 MiB behaved as a cache).
    """
    sizes = {1: 0, 2: 0, 3: 0}
    cpu = min(os.sched_getaffinity(0))
    for index in Path(f"/sys/devices/system/cpu/cpu{cpu}/cache").glob("index*"):
        level, kind, size = (_read(index / name) for name in ("level", "type", "size"))
        if kind in ("Data", "Unified") and level.isdigit() and size.endswith("K"):
            sizes[int(level)] = int(size[:-1]) << 10
            if level == "3":
                sharing = _listed(_read(index / "shared_cpu_list"))
                sizes[3] = min(sizes[3], max(1, sharing) * _L3_BYTES_A_CPU)
    return sizes[1], sizes[2], sizes[3]


def _listed(cpus: str) -> int:
    """Return how many CPUs a list such as `0-3,8` names."""
    ranges = [each.split("-") for each in cpus.split(",") if each]
    return sum(int(each[-1]) - int(each[0]) + 1 for each in ranges)


def _cgroup_cpus() -> int:
    """Return the CPUs the cgroup's quota is worth, rounded up; 0 without a quota."""
    lines = [line.split(":", 2) for line in _read(Path("/proc/self/cgroup")).splitlines()]
    paths = dict(line[1:] for line in lines if len(line) == 3)
    root = Path("/sys/fs/cgroup")
    quotas = []
    # In a container the process's own path may not exist under the mount: the root then holds it.
    for folder in _with_parents(root, paths.get("", "/")):
        quota, _, period = _read(folder / "cpu.max").partition(" ")
        quotas.append((quota, period))
    v1 = next((path for names, path in paths.items() if "cpu" in names.split(",")), "/")
    for folder in _with_parents(root / "cpu", v1):
        quotas.append((_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")))
    cpus = [-(-int(q) // int(p)) for q, p in quotas if q.isdigit() and p.isdigit() and int(p)]
    return min(cpus, default=0)


def _with_parents(root: Path, path: str) -> list[Path]:
    own = root / path.lstrip("/")
    return [own, *(parent for parent in own.parents if parent.is_relative_to(root))]


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
