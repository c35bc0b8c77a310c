"""Fused multiply-adds on registers alone: the roof of a compute-bound kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from ..peer import Job
from .native import library

_SOURCE = r"""
#include <immintrin.h>
#include <omp.h>
#ifdef __AVX512F__
typedef __m512 vec;
#define SET _mm512_set1_ps
#define FMA _mm512_fmadd_ps
#define SUM _mm512_reduce_add_ps
#define CHAINS 24
#else
typedef __m256 vec;
#define SET _mm256_set1_ps
#define FMA _mm256_fmadd_ps
#define SUM(v) ((v)[0])
#define CHAINS 12
#endif
extern "C" long peak(long rounds, float seed, float* out, int threads) {
  _Pragma("omp parallel for num_threads(threads) schedule(static)")
  for (int part = 0; part < threads; ++part) {
    vec acc[CHAINS], a = SET(seed), b = SET(1e-3f);
    _Pragma("GCC unroll 24")
    for (int i = 0; i < CHAINS; ++i) acc[i] = SET(i);
    // Not unrolled, the accumulators would be memory.
    for (long r = 0; r < rounds; ++r)
      _Pragma("GCC unroll 24")
      for (int i = 0; i < CHAINS; ++i) acc[i] = FMA(acc[i], a, b);
    vec total = acc[0];
    _Pragma("GCC unroll 24")
    for (int i = 1; i < CHAINS; ++i) total += acc[i];
    out[16 * part] = SUM(total);
  }
  return 2L * CHAINS * (sizeof(vec) / sizeof(float)) * rounds * threads;
}
"""
_ROUNDS = 100_000  # 1 to 2 ms


def prepare(job: Job, _setting: str) -> PeakSession:
    function = library(_SOURCE, job.workdir / "peak.so").peak
    function.argtypes = [ctypes.c_long, ctypes.c_float, ctypes.c_void_p, ctypes.c_int]
    function.restype = ctypes.c_long
    return PeakSession(function, job.threads)


class PeakSession:
    """`facts["flops"]`: what one call computes on all threads together."""

    def __init__(self, function: Callable[..., int], threads: int) -> None:
        self._function, self._threads = function, threads
        self._out = np.zeros(16 * threads, np.float32)
        self.facts = {"flops": self._call()}

    def _call(self) -> int:
        return self._function(_ROUNDS, 0.999, self._out.ctypes.data, self._threads)

    def bind(self, _inputs: dict[str, np.ndarray]) -> Callable[[], object]:
        return self._call

    def fetch(self, _result: object) -> list[np.ndarray]:
        return []
