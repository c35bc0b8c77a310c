"""Kernels that each take long over one thing that a GPU does, for calibrate."""

from __future__ import annotations

from tvm import tirx
from tvm.script import tirx as T

WARP, BLOCK, CHAINS = 32, 1024, 8
_FULL = 0xFFFFFFFF


def stores(blocks: int) -> tirx.PrimFunc:
    """Return a kernel of blocks that store a number a thread and do nothing else."""

    @T.prim_func(s_tir=True)
    def main(out: T.Buffer((blocks * BLOCK,), "int32")) -> None:
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        for block in T.thread_binding(blocks, thread="blockIdx.x"):
            for thread in T.thread_binding(BLOCK, thread="threadIdx.x"):
                out[block * BLOCK + thread] = thread

    return main


def chase(count: int, steps: int) -> tirx.PrimFunc:
    """Return a kernel of a lone thread whose every load tells where the next one is, in memory."""

    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((count,), "int32"), out: T.Buffer((1,), "int32")) -> None:
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        for _block in T.thread_binding(1, thread="blockIdx.x"):
            for _thread in T.thread_binding(1, thread="threadIdx.x"):
                at = T.alloc_buffer((1,), "int32", scope="local")
                at[0] = 0
                for _ in range(steps):
                    at[0] = x[at[0]]
                out[0] = at[0]

    return main


def shared_chase(steps: int) -> tirx.PrimFunc:
    """Return the same of a warp in shared memory, which each lane has a place of."""

    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((WARP,), "int32"), out: T.Buffer((WARP,), "int32")) -> None:
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        for _block in T.thread_binding(1, thread="blockIdx.x"):
            for thread in T.thread_binding(WARP, thread="threadIdx.x"):
                held = T.alloc_buffer((WARP,), "int32", scope="shared")
                at = T.alloc_buffer((1,), "int32", scope="local")
                held[thread] = x[thread]
                T.evaluate(T.tvm_storage_sync("shared"))
                at[0] = thread
                for _ in range(steps):
                    at[0] = held[at[0]]
                out[thread] = at[0]

    return main


def barriers(steps: int, threads: int = 256) -> tirx.PrimFunc:
    """Return a kernel of a block that waits for itself."""

    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((threads,), "float32"), out: T.Buffer((threads,), "float32")) -> None:
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        for _block in T.thread_binding(1, thread="blockIdx.x"):
            for thread in T.thread_binding(threads, thread="threadIdx.x"):
                total = T.alloc_buffer((1,), "float32", scope="local")
                total[0] = x[thread]
                for _ in range(steps):
                    T.evaluate(T.tvm_storage_sync("shared"))
                    total[0] = total[0] * T.float32(0.5)
                out[thread] = total[0]

    return main


def shuffles(steps: int) -> tirx.PrimFunc:
    """Return a kernel of a warp whose lanes hand a number on."""

    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((WARP,), "float32"), out: T.Buffer((WARP,), "float32")) -> None:
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        for _block in T.thread_binding(1, thread="blockIdx.x"):
            for thread in T.thread_binding(WARP, thread="threadIdx.x"):
                held = T.alloc_buffer((1,), "float32", scope="local")
                held[0] = x[thread]
                for _ in range(steps):
                    held[0] = T.tvm_warp_shuffle(
                        T.uint32(_FULL), held[0], (thread + 1) % WARP, WARP, WARP
                    )
                out[thread] = held[0]

    return main


def sums_of_products(blocks: int, steps: int) -> tirx.PrimFunc:
    """Return a kernel of whole blocks that multiply and add, in chains beside each other."""

    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((CHAINS,), "float32"), out: T.Buffer((blocks * BLOCK,), "float32")
    ) -> None:
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        for block in T.thread_binding(blocks, thread="blockIdx.x"):
            for thread in T.thread_binding(BLOCK, thread="threadIdx.x"):
                held = T.alloc_buffer((CHAINS,), "float32", scope="local")
                for chain in T.unroll(CHAINS):
                    held[chain] = x[chain]
                for _ in range(steps):
                    for chain in T.unroll(CHAINS):
                        held[chain] = held[chain] * x[0] + x[1]
                out[block * BLOCK + thread] = T.float32(0)
                for chain in T.unroll(CHAINS):
                    out[block * BLOCK + thread] = out[block * BLOCK + thread] + held[chain]

    return main


def reads(count: int, blocks: int, again: int) -> tirx.PrimFunc:
    """Return a kernel whose blocks together sum `count` zeros, `again` times over.

    Threads load four at a time, side by side; blocks lie apart, in as many parts. Where a load is
    depends on the sum so far, which nvcc does not know: else it loads once what is read again.
    """
    each = count // blocks // BLOCK // 4

    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((blocks * each * BLOCK * 4,), "int32"),
        out: T.Buffer((blocks * BLOCK,), "int32"),
    ) -> None:
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        for block in T.thread_binding(blocks, thread="blockIdx.x"):
            for thread in T.thread_binding(BLOCK, thread="threadIdx.x"):
                four = T.alloc_buffer((4,), "int32", scope="local")
                total = T.alloc_buffer((1,), "int32", scope="local")
                total[0] = 0
                for _ in range(again):
                    for step in range(each):
                        for lane in T.vectorized(4):
                            four[lane] = x[
                                ((block * each + step + total[0]) * BLOCK + thread) * 4 + lane
                            ]
                        total[0] = total[0] + four[0] + four[1] + four[2] + four[3]
                out[block * BLOCK + thread] = total[0]

    return main


def shared_reads(blocks: int, again: int) -> tirx.PrimFunc:
    """Return a kernel whose blocks sum what they have in shared memory, as `reads` does."""

    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((BLOCK * 4,), "int32"), out: T.Buffer((blocks * BLOCK,), "int32")) -> None:
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        for block in T.thread_binding(blocks, thread="blockIdx.x"):
            for thread in T.thread_binding(BLOCK, thread="threadIdx.x"):
                held = T.alloc_buffer((BLOCK * 4,), "int32", scope="shared")
                four = T.alloc_buffer((4,), "int32", scope="local")
                total = T.alloc_buffer((1,), "int32", scope="local")
                for lane in T.vectorized(4):
                    held[thread * 4 + lane] = x[thread * 4 + lane]
                T.evaluate(T.tvm_storage_sync("shared"))
                total[0] = 0
                for _ in range(again):
                    for lane in T.vectorized(4):
                        four[lane] = held[(total[0] * BLOCK + thread) * 4 + lane]
                    total[0] = total[0] + four[0] + four[1] + four[2] + four[3]
                out[block * BLOCK + thread] = total[0]

    return main
