// What a CUDA kernel names, for a C++ compiler: its threads are fibers of one CPU thread.
//
// scheduler.cc, which is compiled once, lets them run: kernels include as little as they can.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

using uint = unsigned int;
using uchar = unsigned char;
using ushort = unsigned short;

#include "vectors.h"

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  unsigned count() const { return x * y * z; }
};

namespace simt {

constexpr unsigned kWarp = 32;

enum class Waits { kNot, kBarrier, kLanes, kConverged, kDone };

// What a thread knows of itself, and gives other lanes.
struct Lane {
  dim3 index;
  unsigned number = 0, lane = 0;
  unsigned mask = 0;   // the lanes that it waits for
  uint64_t given = 0;  // to other lanes
  uint64_t lanes[kWarp];
};

extern Lane* now;  // the thread that runs
extern dim3 block_index, block_size, grid_size;

// Lets others run until what the thread waits for, in a line of the source, is there.
void wait(Waits waits, int line, unsigned mask = 0);
// Ends the kernel: a thread did what it must not.
void stop(const char* what, long long number, int line);

template <typename T>
void exchange(unsigned mask, T value, int line) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  now->given = 0;
  std::memcpy(&now->given, &value, sizeof(T));
  wait(Waits::kLanes, line, mask);
}

template <typename T>
T taken(unsigned lane) {
  T value;
  std::memcpy(&value, &now->lanes[lane], sizeof(T));
  return value;
}

// Returns the value of the lane `from` of the same `width` lanes, or one's own if there is none.
template <typename T>
T shuffled(unsigned mask, T value, int from, int width, int line) {
  exchange(mask, value, line);
  const int lane = static_cast<int>(now->lane), first = lane / width * width;
  return from < first || from >= first + width ? value : taken<T>(from);
}

inline unsigned converged(int line) {
  wait(Waits::kConverged, line);
  return now->mask;
}

inline unsigned ballot(unsigned mask, int predicate, int line) {
  exchange(mask, predicate != 0, line);
  unsigned found = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane)
    if (mask >> lane & 1) found |= static_cast<unsigned>(taken<bool>(lane)) << lane;
  return found;
}

}  // namespace simt

#include "arrays.h"

// Shared variables of all kernels lie side by side, so that they can be poisoned.
#define __shared__ static __attribute__((section("simt_shared")))
#define __CUDA_ARCH__ 900
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define threadIdx (simt::now->index)
#define blockIdx (simt::block_index)
#define blockDim (simt::block_size)
#define gridDim (simt::grid_size)
// Rounded by itself: this compiler fuses nothing (-ffp-contract=off).
#define __fadd_rn(a, b) ((a) + (b))
#define __fsub_rn(a, b) ((a) - (b))
#define __fmul_rn(a, b) ((a) * (b))
#define __fdiv_rn(a, b) ((a) / (b))
#define __dadd_rn(a, b) ((a) + (b))
#define __dsub_rn(a, b) ((a) - (b))
#define __dmul_rn(a, b) ((a) * (b))
#define __ddiv_rn(a, b) ((a) / (b))
#define __syncthreads() simt::wait(simt::Waits::kBarrier, __LINE__)
#define __syncwarp(mask) simt::exchange(mask, 0, __LINE__)
#define __activemask() simt::converged(__LINE__)
#define SIMT_LANE static_cast<int>(simt::now->lane)
#define __shfl_sync(mask, value, lane, width) \
  simt::shuffled(mask, simt::value_of(value), SIMT_LANE / (width) * (width) + (lane) % (width), width, __LINE__)
#define __shfl_down_sync(mask, value, by, width) \
  simt::shuffled(mask, simt::value_of(value), SIMT_LANE + static_cast<int>(by), width, __LINE__)
#define __shfl_up_sync(mask, value, by, width) \
  simt::shuffled(mask, simt::value_of(value), SIMT_LANE - static_cast<int>(by), width, __LINE__)
#define __shfl_xor_sync(mask, value, by, width) \
  simt::shuffled(mask, simt::value_of(value), SIMT_LANE ^ static_cast<int>(by), width, __LINE__)
#define __ballot_sync(mask, predicate) simt::ballot(mask, predicate, __LINE__)
#define __any_sync(mask, predicate) (simt::ballot(mask, predicate, __LINE__) != 0)
#define __all_sync(mask, predicate) (simt::ballot(mask, predicate, __LINE__) == (mask))
