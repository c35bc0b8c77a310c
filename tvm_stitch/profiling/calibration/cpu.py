"""Measure this machine for the cost model: kernels of our own template, timed one by one.

Every figure is what the template reaches, not what the hardware could: the evaluator compares its
kernels with each other. Cache-resident figures come from `out[r] = sum_j f(x[j] * s[r])`, which
reads one row `x` of the wanted size again for every r.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from tvm import te, tirx, topi

from tir_schedules.backend import backend
from tir_schedules.device import CpuDevice
from tir_schedules.device.profile import OP_KINDS, Bandwidth, Profile
from tir_schedules.host import host_name

from .cpu_kernels import (
    F32,
    LIGHT_OPS,
    MAPS,
    PAGE,
    PANELS,
    SHARE_BYTES,
    Change,
    Map,
    columns,
    elementwise,
    packing,
    parallel,
    phases,
    plain_stores,
    prim_func,
    repeated_rows,
    rows_a_page_apart,
    shares,
)
from .kernel_call import cpu_device, eager_device, kernel_call, planned
from .meeting import Meeting

_ROW = 4096  # elements of a row that stays in L1 beside its accumulators
_ROWS = 256
_CHAIN = 33
_PHASES = 1, 5  # rounds of a kernel that is cut into phases, and of a longer one
_STRIPS = (128, 256, 512)  # elements: tiles are as wide that cut rows from memory
_OTHER_BYTES = 32 << 20  # a last-level cache no system file tells of
_ROUNDS, _ROUND_S = 7, 0.05


def calibrate(threads: int, command: str, told: Callable[[str], None]) -> Profile:
    """Return this machine's profile, in under two minutes; `told` hears what comes next.

    `threads` is the largest count measured. The thresholds are the shipped profile's: they are
    chosen by `bench_memory.py` and `bench_plans.py`, no kernel measures them. Raises: StitchError
    as `compile` does.
    """
    bench = _Bench()
    device = cpu_device(1)
    counts = sorted({1, *(1 << k for k in range(1, threads.bit_length())), threads})
    told("calls and parallel regions")
    call_ns = bench.call_ns()
    regions = {count: bench.region_ns(count) for count in counts if count > 1}
    told("barriers")
    barriers = {count: bench.barrier_ns(count) for count in counts if count > 1}
    handovers = {count: bench.handover_ns(count) for count in counts if count > 1}
    told("vector operations")
    fold, ops = bench.fold_ns(), bench.op_ns()
    told("products with rows a page apart, strips of rows")
    aliasing = bench.aliasing_ns()
    strip = bench.strip_bytes(_sizes(device)["memory"])
    rows = []
    for level, size in _sizes(device).items():
        for count in counts if level in ("L3", "memory") else (1,):
            told(f"bandwidth of {level}, {count} threads")
            rows.append(bench.bandwidth(level, size, count))
    return Profile(
        host_name(),
        device.mcpu,
        device.vector_bytes,
        command,
        tuple(rows),
        regions,
        barriers,
        handovers,
        call_ns,
        fold,
        aliasing,
        strip,
        ops,
        device.profile.thresholds,
        {"thresholds": device.profile.assumed.get("thresholds", device.profile.command)},
    )


def _sizes(device: CpuDevice) -> dict[str, int]:
    """Return the bytes of a working set well inside each level; memory's is four times the L3."""
    l3_bytes = device.l3_bytes or _OTHER_BYTES
    return {
        "L1": _ROW * F32,
        "L2": device.l2_bytes // 2,
        "L3": max(device.l2_bytes * 2, min(l3_bytes // 4, 16 << 20)),
        "memory": 4 * l3_bytes,
    }


class _Bench:
    def __init__(self) -> None:
        self._meetings: dict[int, Meeting] = {}

    def call_ns(self) -> float:
        """Return the cost of one more kernel: the slope over a chain of kernels of one register."""
        return max(1.0, self._chained(elementwise(16), 1, parallel(False)))

    def region_ns(self, threads: int) -> float:
        """Return what a region adds to an even share of work that stays in L1."""
        func = elementwise(threads * _ROW // 2)
        alone = self._chained(func, 1, parallel(False))
        together = self._chained(func, threads, parallel(True))
        return max(1.0, together - alone / threads)

    def barrier_ns(self, threads: int) -> float:
        """Return what a barrier adds: the slope over kernels of more and fewer phases."""
        few, many = (phases(threads, rounds) for rounds in _PHASES)
        counts = [
            planned(func, eager_device(threads), parallel(True)).barriers for func in (few, many)
        ]
        alone, together = (
            self._timed(many, count, change, device=eager_device(count))
            - self._timed(few, count, change, device=eager_device(count))
            for count, change in (
                (1, parallel(False)),
                (threads, parallel(True)),
            )
        )
        return max(1.0, (together - alone / threads) / (counts[1] - counts[0]))

    def handover_ns(self, threads: int) -> float:
        """Return what a byte takes longer that another thread has written a kernel before."""
        own, other = (
            self._chained(shares(threads, shift), threads, parallel(True)) for shift in (0, 1)
        )
        return max(1e-6, (other - own) / SHARE_BYTES)

    def op_ns(self) -> dict[str, float]:
        """Return ns a register for each kind, the cost of an empty body taken off."""
        registers = _ROWS * _ROW * F32 / cpu_device(1).vector_bytes
        empty = self._rows_ns(lambda x: x, _ROW, _ROWS, 1)
        out = {}
        for kind in OP_KINDS:
            count = LIGHT_OPS if kind == "light" else 1
            spent = self._rows_ns(MAPS[kind], _ROW, _ROWS, 1) - empty
            out[kind] = max(spent / registers / count, 1e-3)
        return out

    def fold_ns(self) -> float:
        """Return what a row costs that is as long as its accumulator has lanes."""
        lanes = cpu_device(1).vector_bytes
        x = te.placeholder((_ROW // 4, lanes), "float32", "x")
        return self._timed(prim_func(x, topi.sum(x, 1)), 1, parallel(False)) / (_ROW // 4)

    def strip_bytes(self, size: int) -> float:
        """Return by how much wider strips of rows seem: of `size` bytes, read in strips or whole.

        A strip of b bytes takes 1 + s / b times as long as so much of a whole row; s is the mean.
        """
        x = te.placeholder((size // F32 // _ROW, _ROW), "float32", "x")
        func = prim_func(x, topi.max(x, 0))
        whole = self._timed(func, 1, columns(None))
        slower = ((self._timed(func, 1, columns(width)) / whole, width) for width in _STRIPS)
        return max(1.0, statistics.mean((each - 1.0) * width * F32 for each, width in slower))

    def aliasing_ns(self) -> float:
        """Return what a step of a product with rows a page apart gains by packing them."""
        device = cpu_device(1)
        layout = backend(device).weights
        rows, lanes = layout.rows(device), layout.widest(_ROW, "float32", device)
        func = rows_a_page_apart(rows, lanes)
        apart, packed = (self._timed(func, 1, packing(wanted)) for wanted in (False, True))
        return (apart - packed) / (PANELS * PAGE // F32)

    def bandwidth(self, level: str, size: int, threads: int) -> Bandwidth:
        """Return the figures of one working set of `size` bytes."""
        elements = size // F32
        if level != "memory":
            again = max(4, (64 << 20) // size if level == "L3" else (16 << 20) // size)
            read = again * size / self._rows_ns(lambda x: x, elements, again, threads)
            return Bandwidth(level, threads, read)
        read = size / self._read_ns(elements, threads)
        copied = elementwise(elements // 2)
        plain = size / self._timed(copied, threads, plain_stores(threads > 1))
        stream = size / self._timed(copied, threads, parallel(threads > 1))
        return Bandwidth(level, threads, read, plain, stream)

    def _rows_ns(self, body: Map, elements: int, rows: int, threads: int) -> float:
        """Return the time of `out[r] = sum_j body(x[j] * s[r])`, with r shared out to threads."""
        return self._timed(
            repeated_rows(body, elements, rows),
            threads,
            parallel(threads > 1),
        )

    def _read_ns(self, elements: int, threads: int) -> float:
        x = te.placeholder((elements // _ROW, _ROW), "float32", "x")
        return self._timed(prim_func(x, topi.sum(x, 1)), threads, parallel(threads > 1))

    def _chained(self, func: tirx.PrimFunc, threads: int, change: Change) -> float:
        """Return the time of one kernel among many in a row, each reading the one before."""
        one, many = (self._timed(func, threads, change, count) for count in (1, _CHAIN))
        return (many - one) / (_CHAIN - 1)

    def _timed(
        self,
        func: tirx.PrimFunc,
        threads: int,
        change: Change,
        calls: int = 1,
        device: CpuDevice | None = None,
    ) -> float:
        """Return the median time of `calls` kernels in a row, in ns."""
        if threads not in self._meetings:
            self._meetings[threads] = Meeting.of(threads)
        return _median_ns(
            kernel_call(func, device or cpu_device(threads), change, calls),
            self._meetings[threads].settle,
        )


def _median_ns(run: Callable[[], object], settle: Callable[[], float]) -> float:
    run()
    start = time.perf_counter_ns()
    run()
    each = max(1, time.perf_counter_ns() - start)
    count = max(1, min(1000, int(_ROUND_S * 1e9 / each)))
    rounds = []
    for _ in range(_ROUNDS):
        settle()
        start = time.perf_counter_ns()
        for _ in range(count):
            run()
        rounds.append((time.perf_counter_ns() - start) / count)
    return statistics.median(rounds)


def describe(profile: Profile) -> Sequence[str]:
    """Return the profile in lines for a terminal."""
    lines = [f"{profile.name} ({profile.mcpu}), {profile.vector_bytes}-byte registers"]
    for row in profile.bandwidths:
        figures = [("read", row.read), ("copy", row.copy), ("streaming copy", row.stream)]
        told = ", ".join(f"{name} {value:.1f}" for name, value in figures if value)
        lines.append(f"{row.level:6} {row.threads} threads: {told} GB/s")
    for threads, ns in profile.region_ns.items():
        barrier = profile.barrier(threads)
        lines.append(f"parallel region of {threads}: {ns:.0f} ns, a barrier in it {barrier:.0f} ns")
    for threads, ns in profile.handover_ns.items():
        lines.append(f"from another of {threads} cores: {ns:.3f} ns a byte more")
    lines.append(f"kernel call: {profile.call_ns:.0f} ns, lane fold: {profile.fold_ns:.1f} ns")
    lines.append(f"product with rows a page apart: {profile.aliasing_ns:.2f} ns a step more")
    lines.append(f"strips of rows from memory: as if {profile.strip_bytes:.0f} bytes wider")
    ops = ", ".join(f"{kind} {ns:.2f}" for kind, ns in profile.op_ns.items())
    lines.append(f"ns a register: {ops}")
    return lines
