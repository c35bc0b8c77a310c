"""Measure the error of `tir_schedules.vector_math` in ulp against float64, rounded to float32.

By default some thousand mantissas of every exponent and sign; `--all` takes all 2**32 arguments
of each unary function (some minutes a function and thread). Exit code 1 if a bound is broken.

    python scripts/sweep_vector_math.py --all --threads 2 exp tanh
"""

import argparse
import math
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tvm
from tvm import tirx
from tvm.ir import Expr, IRModule
from tvm.script import tirx as T
from tvm.target.codegen import llvm_get_system_cpu

from tir_schedules.device import llvm_features
from tir_schedules.vector_math import lower

Array = np.ndarray
LIMIT_ULP = 4
CHUNK = 1 << 20
_erf = np.vectorize(math.erf, otypes=[np.float64])
REFERENCES: dict[str, Callable[[Array], Array]] = {
    "erf": _erf,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "tanh": np.tanh,
}


def build(
    function: Callable[..., Expr],
    arguments: int = 1,
    size: int = CHUNK,
    dtype: str = "float32",
    mcpu: str | None = None,
) -> tvm.runtime.Executable:
    """Compile `out[i] = function(*in[i])` over (size,) arrays, 16 lanes at a time."""
    kernel = _unary(function, size, dtype) if arguments == 1 else _binary(function, size, dtype)
    target = tvm.target.Target({"kind": "llvm", "mcpu": mcpu or llvm_get_system_cpu()})
    lowered = lower(kernel, scalef="avx512f" in llvm_features(target))
    return tvm.compile(IRModule({"main": lowered}), target=target)


def _unary(function: Callable[..., Expr], size: int, dtype: str) -> tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def kernel(a: T.Buffer((size,), dtype), out: T.Buffer((size,), dtype)):
        for i in T.serial(size // 16):
            for v in T.vectorized(16):
                out[i * 16 + v] = function(a[i * 16 + v])

    return kernel


def _binary(function: Callable[..., Expr], size: int, dtype: str) -> tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def kernel(
        a: T.Buffer((size,), dtype), b: T.Buffer((size,), dtype), out: T.Buffer((size,), dtype)
    ):
        for i in T.serial(size // 16):
            for v in T.vectorized(16):
                out[i * 16 + v] = function(a[i * 16 + v], b[i * 16 + v])

    return kernel


def evaluator(executable: tvm.runtime.Executable) -> Callable[..., Array]:
    """Return a function over float arrays of any size, run in pieces of the kernel's size."""
    main = executable.jit()["main"]

    def evaluate(*inputs: Array) -> Array:
        out = np.empty(CHUNK, inputs[0].dtype)
        pieces = []
        for start in range(0, inputs[0].size, CHUNK):
            parts = [x[start : start + CHUNK] for x in inputs]
            count = parts[0].size
            padded = [tvm.runtime.tensor(np.pad(p, (0, CHUNK - count))) for p in parts]
            result = tvm.runtime.tensor(out)
            main(*padded, result)
            pieces.append(result.numpy()[:count])
        return np.concatenate(pieces)

    return evaluate


def ulp_distance(got: Array, expected: Array) -> Array:
    """Return how many float32 values lie between: 0 for two NaN, 2**32 for one, -0 is next to 0."""

    def rank(x: Array) -> Array:
        i = x.view(np.int32).astype(np.int64)
        return np.where(i < 0, -(i & 0x7FFFFFFF) - 1, i)

    distance = np.abs(rank(got) - rank(expected))
    nan = np.isnan(got), np.isnan(expected)
    return np.where(nan[0] & nan[1], 0, np.where(nan[0] != nan[1], 1 << 32, distance))


def samples(mantissas: int) -> Array:
    """Return float32 values of every exponent and sign: the ends and random mantissas between."""
    rng = np.random.default_rng(0)
    exponents = np.arange(256, dtype=np.uint32)[:, None] << 23
    random = rng.integers(0, 1 << 23, (256, mantissas), dtype=np.uint32)
    ends = np.array([0, 1, 2, 3, (1 << 23) - 2, (1 << 23) - 1], np.uint32)
    positive = np.concatenate([random, np.broadcast_to(ends, (256, 6))], axis=1) | exponents
    positive = positive.ravel()
    return np.concatenate([positive, positive | np.uint32(1 << 31)]).view(np.float32)


def consecutive(start: int) -> Array:
    """Return the CHUNK float32 values whose bits count up from `start`."""
    return np.arange(start, start + CHUNK, dtype=np.uint32).view(np.float32)


def worst(name: str, evaluate: Callable[[Array], Array], x: Array) -> tuple[int, float]:
    """Return (ulp, argument) of the largest error of the unary function `name` over x."""
    with np.errstate(all="ignore"):
        expected = REFERENCES[name](x.astype(np.float64)).astype(np.float32)
    distance = ulp_distance(evaluate(x), expected)
    at = int(distance.argmax())
    return int(distance[at]), float(x[at])


def worst_of_all(name: str, evaluate: Callable[[Array], Array], threads: int) -> tuple[int, float]:
    """Return `worst` over all 2**32 arguments; only offsets are queued, the values are 16 GiB."""
    with ThreadPoolExecutor(threads) as pool:
        starts = range(0, 1 << 32, CHUNK)
        return max(pool.map(lambda start: worst(name, evaluate, consecutive(start)), starts))


def nanoseconds(name: str, mcpu: str | None) -> float:
    """Return the time of one element in a serial loop over 4096 that stay in L1."""
    size, calls = 4096, 50
    kernel = build(getattr(tirx, name), size=size, mcpu=mcpu).jit()["main"]
    x = np.abs(np.random.default_rng(0).standard_normal(size)).astype(np.float32)
    arrays = [tvm.runtime.tensor(a) for a in (x, np.empty_like(x))]
    rounds = []
    for _ in range(30):
        start = time.perf_counter()
        for _ in range(calls):
            kernel(*arrays)
        rounds.append(time.perf_counter() - start)
    return min(rounds) / calls / size * 1e9


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("functions", nargs="*", metavar="FUNCTION", help=", ".join(REFERENCES))
    parser.add_argument("--all", action="store_true", help="all 2**32 arguments")
    parser.add_argument("--mantissas", type=int, default=1 << 12, help="per exponent and sign")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--time", action="store_true", help="also ns an element on one core, in L1")
    parser.add_argument("--mcpu", help="LLVM's name of the CPU (default: this machine's)")
    args = parser.parse_args()
    if unknown := set(args.functions) - set(REFERENCES):
        parser.error(f"unknown function {', '.join(sorted(unknown))}")
    broken = 0
    for name in args.functions or REFERENCES:
        evaluate = evaluator(build(getattr(tirx, name), mcpu=args.mcpu))
        start = time.monotonic()
        if args.all:
            ulp, x = worst_of_all(name, evaluate, args.threads)
        else:
            ulp, x = worst(name, evaluate, samples(args.mantissas))
        broken += ulp > LIMIT_ULP
        print(f"{name:8} {ulp} ulp at {x!r}  ({time.monotonic() - start:.0f} s)", flush=True)
        if args.time:
            print(f"{name:8} {nanoseconds(name, args.mcpu):.3f} ns an element, best of 30 rounds")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
