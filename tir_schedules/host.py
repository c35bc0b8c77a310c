"""This machine: its CPU, its caches, how many CPUs this process may use."""

from __future__ import annotations

import functools
import os
import platform
from pathlib import Path

from tvm_ffi import get_global_func

_L3_BYTES_A_CPU = 32 << 20


def host_mcpu() -> str:
    """Return LLVM's name of this machine's CPU."""
    return str(get_global_func("target.llvm_get_system_cpu")())


@functools.cache
def host_name() -> str:
    """Return the CPU's model as the system names it."""
    lines = _read(Path("/proc/cpuinfo")).splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


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
