"""Print a hash of the kernels behind each row of the benches: equal hashes, equal figures.

    python scripts/hash_kernels.py > before     # and again on another commit, then diff
    python scripts/hash_kernels.py --targets znver4 --names models,gemm

A hash is of the structure of a row's kernels: names of variables, buffers and kernels do not
count. Each target is given the caches of a machine that it names, so that the hashes are the same
wherever they are made.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from unittest import mock

import bench_coarse
import bench_conv
import bench_gemm
import onnx
import zoo
from bench_compile import MODELS
from tvm import tirx
from tvm_ffi import structural_hash

from tir_schedules.device import cpu as device
from tvm_stitch.build import Request, lower

# L1d, L2 and L3 in bytes of a core of each: EPYC 9004, Xeon E-2300, a small Haswell.
CACHES = {
    "znver4": (32 << 10, 1 << 20, 32 << 20),
    "rocketlake": (48 << 10, 2 << 20, 64 << 20),
    "x86-64-v3": (32 << 10, 256 << 10, 8 << 20),
}
Row = tuple[str, int, Callable[[], onnx.ModelProto]]


def main() -> None:
    args = _arguments()
    keys = [
        (target, group, at)
        for target in args.targets
        for group in args.names
        for at in range(len(list(ROWS[group]())))
    ]
    with ProcessPoolExecutor(args.workers, get_context("spawn")) as pool:
        for line in pool.map(hashed, keys):
            print(line, flush=True)


def hashed(key: tuple[str, str, int]) -> str:
    """Return the line of a target, a group of rows, and a row's place in it."""
    target, group, at = key
    name, threads, model = list(ROWS[group]())[at]
    kernels = sorted(structure(kernel) for kernel in _kernels(model(), target, threads))
    text = hashlib.sha256(" ".join(kernels).encode()).hexdigest()[:16]
    return f"{target} {group} {name} {threads} threads: {len(kernels)} kernels {text}"


def structure(kernel: tirx.PrimFunc) -> str:
    """Return a hash that names of kernel, parameters, buffers and variables do not change."""
    unnamed = kernel.without_attr("global_symbol")
    return f"{structural_hash(unnamed, map_free_vars=True) & (1 << 64) - 1:016x}"


def _kernels(model: onnx.ModelProto, target: str, threads: int) -> list[tirx.PrimFunc]:
    with (
        mock.patch.object(device, "host_mcpu", lambda: target),
        mock.patch.object(device, "host_caches", lambda: CACHES[target]),
    ):
        mod = lower(Request(model, target=target, threads=threads)).mod
    return [f for _, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)]


def _memory() -> Iterator[Row]:
    for name in zoo.SUBGRAPHS:
        for size, shape in zoo.bench_shapes(name).items():
            for threads in (1, 2):
                yield f"{name} {size}", threads, partial(zoo.subgraph, name, shape)


def _compute(cases: list) -> Iterator[Row]:
    for case in cases:
        yield f"{case.name} {case.sizes}", 2, case.model


def _models() -> Iterator[Row]:
    for name in MODELS:
        yield name, 2, partial(zoo.model, name)


ROWS: dict[str, Callable[[], Iterator[Row]]] = {
    "memory": _memory,
    "gemm": lambda: _compute([product.case() for product in bench_gemm.PRODUCTS]),
    "coarse": lambda: _compute(list(bench_coarse.cases())),
    "conv": lambda: _compute(list(bench_conv.cases())),
    "models": _models,
}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--targets", type=_listed, default=list(CACHES), metavar="A,B")
    parser.add_argument("--names", type=_listed, default=list(ROWS), metavar="A,B")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), metavar="N")
    return parser.parse_args()


def _listed(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    main()
