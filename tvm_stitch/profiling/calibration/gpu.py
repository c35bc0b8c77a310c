"""Measure this machine's GPU for the cost model: kernels that each take long over one thing.

A time is a kernel's share of a queue that is waited for once; what a step takes is the slope over
kernels of few and of many steps.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

import numpy as np
import tvm
from tvm import te, tirx, topi
from tvm.ir import IRModule

from tir_schedules.backend import device_of
from tir_schedules.device.cuda import WARP, CudaDevice, CudaProfile
from tir_schedules.device.gpu_profile import GpuProfile
from tvm_stitch import api, targets
from tvm_stitch.build import machine_code
from tvm_stitch.runtime.gpu_driver import gpu

from ..kernel_model import kernels_module
from . import gpu_kernels
from .gpu_kernels import BLOCK, CHAINS

_QUEUE_NS, _MOST_CALLS, _ROUNDS = 5e6, 1000, 7
_FEW, _MANY = 256, 4096  # steps
_FLOATS_OF_BLOCK = BLOCK * 4  # that a block reads at a time
_SIDE = 4096  # of a square product of halves


def calibrate(command: str, told: Callable[[str], None], scale: float = 1.0) -> GpuProfile:
    """Return the profile of the first GPU, in about a minute; `told` hears what comes next.

    With a `scale` below 1 there is less of everything: a check of this file, no measurement.
    Raises: StitchError if there is no GPU, or one without figures.
    """
    target = targets.resolve("cuda")
    bench = _Bench(target, scale)
    told("launches and latencies")
    figures = CudaProfile(
        launch_ns=bench.launch_ns(),
        block_ns=bench.block_ns(),
        load_ns=bench.load_ns(),
        barrier_ns=bench.slope(gpu_kernels.barriers),
        shuffle_ns=bench.slope(gpu_kernels.shuffles),
        shared_ns=bench.slope(gpu_kernels.shared_chase, whole=True),
    )
    told("instructions, caches and memory")
    caches = replace(
        figures,
        issue_ns=bench.issue_ns(),
        l1_bytes_ns=bench.l1_bytes_ns(),
        shared_bytes_ns=bench.shared_bytes_ns(),
        l2_share=bench.l2_share(),
    )
    told("products of halves")
    figures = replace(caches, wmma_share=bench.wmma_share())
    return GpuProfile(str(bench.home.device_name), bench.device.arch, command, figures)


def describe(profile: GpuProfile) -> Sequence[str]:
    """Return the profile in lines for a terminal."""
    assumed = asdict(CudaProfile())
    lines = [f"{profile.name} ({profile.arch})"]
    for name, value in asdict(profile.figures).items():
        lines.append(f"{name}: {value:.3g}, assumed without a profile {assumed[name]:.3g}")
    return lines


class _Bench:
    def __init__(self, target: tvm.target.Target, scale: float) -> None:
        device = device_of(target)
        assert isinstance(device, CudaDevice)
        self.device, self._target, self._scale = device, target, scale
        self.home = gpu(device.arch)
        self._generator = np.random.default_rng(0)

    def launch_ns(self) -> float:
        return self._timed(gpu_kernels.stores(1))

    def block_ns(self) -> float:
        """Return what a wave of whole blocks takes: the slope over few waves and many."""
        wave = self.device.sms * self.device.threads // BLOCK
        few, many = 2, self._scaled(64, 3)
        times = [self._timed(gpu_kernels.stores(wave * waves)) for waves in (few, many)]
        return max(1.0, (times[1] - times[0]) / (many - few))

    def load_ns(self) -> float:
        """Return the latency of a load from memory: one big cycle, too long for L2."""
        count = self._scaled(4 * self.device.l2_bytes // 4, 64)
        order = self._generator.permutation(count)
        following = np.empty(count, np.int32)
        following[order] = np.roll(order, -1)
        return self.slope(lambda steps: gpu_kernels.chase(count, steps), following)

    def slope(
        self,
        kernel: Callable[[int], tirx.PrimFunc],
        first: np.ndarray | None = None,
        whole: bool = False,
    ) -> float:
        """Return what one more step of a kernel takes. `whole`: its input is a cycle of lanes."""
        if whole:
            first = np.roll(np.arange(WARP, dtype=np.int32), -1)
        few, many = self._scaled(_FEW, 2), self._scaled(_MANY, 4)
        times = [self._timed(kernel(steps), first) for steps in (few, many)]
        return max(1e-3, (times[1] - times[0]) / (many - few))

    def issue_ns(self) -> float:
        """Return what a scheduler takes for an instruction of a warp, its warps all at work."""
        blocks = self.device.sms * self.device.threads // BLOCK
        blocks = self._scaled(blocks, 1)
        each = self.slope(lambda steps: gpu_kernels.sums_of_products(blocks, steps))
        issued = blocks * BLOCK // WARP * CHAINS
        return each * 4 * min(self.device.sms, blocks) / issued

    def l1_bytes_ns(self) -> float:
        """Return the bytes a multiprocessor reads of L1 in a ns."""
        blocks = self._scaled(self.device.sms, 1)
        size = blocks * _FLOATS_OF_BLOCK * 2  # 32 KiB of a multiprocessor
        taken = self.slope(lambda again: gpu_kernels.reads(size, blocks, again))
        return size * 4 / taken / blocks

    def shared_bytes_ns(self) -> float:
        """Return the bytes a multiprocessor reads of its shared memory in a ns."""
        blocks = self._scaled(self.device.sms, 1)
        taken = self.slope(lambda again: gpu_kernels.shared_reads(blocks, again))
        return _FLOATS_OF_BLOCK * 4 * blocks / taken / min(blocks, self.device.sms)

    def l2_share(self) -> float:
        """Return the time of a byte from L2 as a share of that of one from memory."""
        blocks = self._scaled(self.device.sms * 2, 1)
        part = blocks * _FLOATS_OF_BLOCK
        near = max(1, self._scaled(self.device.l2_bytes // 4 // 4, 0) // part) * part
        far = max(2, self._scaled(self.device.l2_bytes * 8 // 4, 0) // part) * part
        few, many = (self._timed(gpu_kernels.reads(near, blocks, n)) for n in (1, 5))
        cached = (many - few) / 4 / near
        memory = self._timed(gpu_kernels.reads(far, blocks, 1)) / far
        return min(1.0, max(1e-3, cached / memory))

    def wmma_share(self) -> float:
        """Return what our own product of halves reaches of the peak of tensor cores."""
        side = self._scaled(_SIDE, 32)
        a, b = (te.placeholder((side, side), "float16", name) for name in "ab")
        func = te.create_prim_func([a, b, topi.matmul(a, b)])
        model = api.compile(kernels_module([func], 1), self._target)
        given = [
            tvm.runtime.tensor(self._generator.standard_normal((side, side), np.float32)
                               .astype(np.float16), self.home)
            for _ in range(2)
        ]  # fmt: skip
        taken = self._queued(lambda: model(*given))
        return min(1.0, max(1e-3, 2 * side**3 / taken / (self.device.tensor_flops * 1e-9)))

    def _scaled(self, count: int, least: int) -> int:
        return max(least, int(count * self._scale))

    def _timed(self, func: tirx.PrimFunc, first: np.ndarray | None = None) -> float:
        """Return the ns of a kernel on random numbers; `first` is its first input."""
        arch = self.device.arch
        with machine_code(arch), self._target:
            built = tvm.compile(IRModule({"main": func}), self._target)
        tensors = [self._tensor(param) for param in func.params]
        if first is not None:
            tensors[0] = tvm.runtime.tensor(first, self.home)
        kernel = built["main"]
        return self._queued(lambda: kernel(*tensors))

    def _tensor(self, param: tirx.Var) -> tvm.runtime.Tensor:
        shape = tuple(int(extent) for extent in param.ty.shape)
        drawn = self._generator.random(shape, np.float32).astype(str(param.ty.dtype))
        return tvm.runtime.tensor(drawn, self.home)

    def _queued(self, call: Callable[[], object]) -> float:
        """Return the ns of a call among many that are waited for once: the median of rounds."""
        call()
        self.home.sync()
        calls, samples = 1, []
        while len(samples) < _ROUNDS:
            start = time.perf_counter_ns()
            for _ in range(calls):
                call()
            self.home.sync()
            taken = time.perf_counter_ns() - start
            if taken < _QUEUE_NS and calls < _MOST_CALLS:
                calls *= 2
            else:
                samples.append(taken / calls)
        return statistics.median(samples)
