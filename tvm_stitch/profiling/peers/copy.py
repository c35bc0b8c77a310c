"""A copy of as many bytes as a model reads and writes: the roof of a memory-bound kernel.

Settings: `plain` stores with ordinary vector stores, `stream` with stores that bypass the caches.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from ..arrays import aligned_copy
from ..peer import Job
from .native import library

_SOURCE = r"""
#include <immintrin.h>
#include <omp.h>
#ifdef __AVX512F__
typedef __m512 vec;
#define LOAD _mm512_load_ps
#define STORE _mm512_store_ps
#define STREAM _mm512_stream_ps
#else
typedef __m256 vec;
#define LOAD _mm256_load_ps
#define STORE _mm256_store_ps
#define STREAM _mm256_stream_ps
#endif
#define COPY(NAME, PUT, FENCE)                                               \
  extern "C" void NAME(const float* from, float* to, long count, int threads) { \
    const long lanes = sizeof(vec) / sizeof(float);                          \
    _Pragma("omp parallel for num_threads(threads) schedule(static)")        \
    for (int part = 0; part < threads; ++part) {                             \
      const long blocks = count / lanes;                                     \
      const long end = blocks * (part + 1) / threads * lanes;                \
      for (long i = blocks * part / threads * lanes; i < end; i += lanes)    \
        PUT(to + i, LOAD(from + i));                                         \
      FENCE;                                                                 \
    }                                                                        \
  }
COPY(plain, STORE, )
COPY(stream, STREAM, _mm_sfence())
"""
# Without the last flag GCC may turn the plain loop into memcpy, which streams by itself.
_FLAGS = ("-funroll-loops", "-fno-tree-loop-distribute-patterns")


def prepare(job: Job, setting: str) -> CopySession:
    function = getattr(library(_SOURCE, job.workdir / "copy.so", *_FLAGS), setting)
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_int]
    function.restype = None
    return CopySession(function, max(job.copy_bytes // 2, 64), job.threads)


class CopySession:
    """Each set of inputs is a pair of arrays, each of half the bytes."""

    def __init__(self, function: Callable[..., None], half_bytes: int, threads: int) -> None:
        self._function, self._threads = function, threads
        self._count = half_bytes // 64 * 16
        self.facts = {"bytes": half_bytes * 2}

    def bind(self, _inputs: dict[str, np.ndarray]) -> Callable[[], object]:
        source = aligned_copy(np.ones(self._count, np.float32))
        target = aligned_copy(np.zeros(self._count, np.float32))
        copy, count, threads = self._function, self._count, self._threads
        addresses = source.ctypes.data, target.ctypes.data

        def call() -> object:
            copy(*addresses, count, threads)
            return source, target

        return call

    def fetch(self, _result: object) -> list[np.ndarray]:
        return []
