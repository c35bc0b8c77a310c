// What a CUDA kernel names, for a C++ compiler: its threads are fibers of one CPU thread.
//
// A thread runs until it meets others: at a barrier, a shuffle, a vote, or its end. Who goes next is
// drawn, so that what one thread reads of another without a barrier between is another's in some
// order; in every other block, also drawn, warps go one before the other as far as they can. Shared
// memory begins as NaN, in every block.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

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
constexpr size_t kStack = 256 << 10;
constexpr int kPoison = 0xFF;  // four of it are a NaN

enum class Waits { kNot, kBarrier, kLanes, kConverged, kDone };

struct Thread {
  ucontext_t context;
  std::vector<char> stack;
  dim3 index;
  unsigned number = 0, lane = 0;
  Waits waits = Waits::kNot;
  int line = 0;        // of the source, where it waits
  unsigned mask = 0;   // the lanes that it waits for
  uint64_t given = 0;  // to other lanes
  uint64_t lanes[kWarp];
};

struct Failure {
  std::string what;
};

class Block {
 public:
  Block(dim3 size, unsigned seed) : size_(size), rng_(seed), threads_(size.count()) {}

  // Runs `body` once for each thread; throws Failure where threads never meet.
  void run(const std::function<void()>& body) {
    body_ = &body;
    failure_.clear();
    in_ranks_ = draw(2) == 1;
    ranks_.resize((threads_.size() + kWarp - 1) / kWarp);
    for (unsigned warp = 0; warp < ranks_.size(); ++warp) ranks_[warp] = warp;
    std::shuffle(ranks_.begin(), ranks_.end(), rng_);
    for (unsigned number = 0; number < threads_.size(); ++number) start(number);
    while (step()) {
    }
    if (!failure_.empty()) throw Failure{failure_};
  }

  Thread& now() { return *now_; }
  dim3 size() const { return size_; }
  unsigned draw(unsigned below) { return std::uniform_int_distribution<unsigned>(0, below - 1)(rng_); }

  // Ends the kernel: a thread did what it must not.
  void stop(const char* what, long long number, int line) {
    fail(what, number, "in line", line, "");
    wait(Waits::kDone, line);
  }

  void wait(Waits waits, int line, unsigned mask = 0) {
    Thread& own = *now_;
    own.waits = waits;
    own.line = line;
    own.mask = mask;
    swapcontext(&own.context, &scheduler_);
  }

 private:
  static void enter();

  void start(unsigned number) {
    Thread& thread = threads_[number];
    thread.stack.resize(kStack);
    thread.number = number;
    thread.lane = number % kWarp;
    thread.index = {number % size_.x, number / size_.x % size_.y, number / size_.x / size_.y};
    thread.waits = Waits::kNot;
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.data();
    thread.context.uc_stack.ss_size = kStack;
    thread.context.uc_link = &scheduler_;
    makecontext(&thread.context, &Block::enter, 0);
  }

  // Lets one thread go on, or those that have met; returns whether any is left.
  bool step() {
    std::vector<unsigned> able;
    unsigned first = ~0u;
    for (const Thread& thread : threads_) {
      if (thread.waits != Waits::kNot) continue;
      const unsigned rank = in_ranks_ ? ranks_[thread.number / kWarp] : 0;
      if (rank < first) able.clear();
      first = std::min(first, rank);
      if (rank == first) able.push_back(thread.number);
    }
    // A warp that stands before those has met, or waits for others.
    if (in_ranks_ && waits_for_lanes_below(first) && meet_lanes()) return true;
    if (!able.empty()) {
      now_ = &threads_[able[draw(able.size())]];
      swapcontext(&scheduler_, &now_->context);
      return failure_.empty();
    }
    return meet_lanes() || converge() || meet_block();
  }

  bool waits_for_lanes_below(unsigned rank) const {
    for (const Thread& thread : threads_)
      if (thread.waits == Waits::kLanes && ranks_[thread.number / kWarp] < rank) return true;
    return false;
  }

  // Exchanges what lanes give each other, once all that are named wait at the same place.
  bool meet_lanes() {
    bool met = false;
    for (Thread& thread : threads_) {
      if (thread.waits != Waits::kLanes) continue;
      const unsigned first = thread.number - thread.lane;
      bool all = thread.mask >> thread.lane & 1;
      for (unsigned lane = 0; lane < kWarp && all; ++lane) {
        if (!(thread.mask >> lane & 1)) continue;
        all = first + lane < threads_.size();
        if (!all) break;
        const Thread& other = threads_[first + lane];
        all = other.waits == Waits::kLanes && other.line == thread.line && other.mask == thread.mask;
      }
      if (!all) continue;
      const unsigned mask = thread.mask;
      uint64_t values[kWarp];
      std::memset(values, kPoison, sizeof values);  // of lanes that take no part
      for (unsigned lane = 0; lane < kWarp; ++lane)
        if (mask >> lane & 1) values[lane] = threads_[first + lane].given;
      for (unsigned lane = 0; lane < kWarp; ++lane) {
        if (!(mask >> lane & 1)) continue;
        std::memcpy(threads_[first + lane].lanes, values, sizeof values);
        threads_[first + lane].waits = Waits::kNot;
      }
      met = true;
    }
    return met;
  }

  // Tells threads of one warp that ask who is there: those of it that can't go on but for that.
  bool converge() {
    for (Thread& thread : threads_) {
      if (thread.waits != Waits::kConverged) continue;
      const unsigned first = thread.number - thread.lane;
      const int line = thread.line;
      unsigned mask = 0;
      for (unsigned lane = 0; lane < kWarp && first + lane < threads_.size(); ++lane) {
        const Thread& other = threads_[first + lane];
        if (other.waits == Waits::kConverged && other.line == line) mask |= 1u << lane;
      }
      for (unsigned lane = 0; lane < kWarp; ++lane)
        if (mask >> lane & 1) {
          threads_[first + lane].waits = Waits::kNot;
          threads_[first + lane].mask = mask;
        }
      return true;
    }
    return false;
  }

  bool meet_block() {
    unsigned done = 0, at = 0;
    int line = 0;
    for (const Thread& thread : threads_) {
      if (thread.waits == Waits::kDone) ++done;
      if (thread.waits != Waits::kBarrier) continue;
      if (at++ == 0) line = thread.line;
      if (thread.line != line) return fail("barriers", line, "and", thread.line, "meet");
    }
    if (done == threads_.size()) return false;
    if (at < threads_.size()) {
      for (const Thread& thread : threads_)
        if (thread.waits == Waits::kLanes)
          return fail("lanes of line", thread.line, "wait for others, mask", thread.mask, "");
      return fail("of the threads", at, "wait at the barrier of line", line, "and the others end");
    }
    for (Thread& thread : threads_) thread.waits = Waits::kNot;
    return true;
  }

  template <typename A, typename B>
  bool fail(const char* before, A one, const char* between, B other, const char* after) {
    char text[256];
    std::snprintf(text, sizeof text, "%s %lld %s %lld %s", before, static_cast<long long>(one), between,
                  static_cast<long long>(other), after);
    failure_ = text;
    return false;
  }

  dim3 size_;
  std::mt19937 rng_;
  std::vector<unsigned> ranks_;  // of warps, and whether they go by them
  bool in_ranks_ = false;
  std::vector<Thread> threads_;
  const std::function<void()>* body_ = nullptr;
  ucontext_t scheduler_;
  Thread* now_ = nullptr;
  std::string failure_;
};

inline Block* block = nullptr;
inline dim3 block_index, grid_size;

inline void Block::enter() {
  (*block->body_)();
  block->now_->waits = Waits::kDone;
}

template <typename T>
void exchange(unsigned mask, T value, int line) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  Thread& own = block->now();
  own.given = 0;
  std::memcpy(&own.given, &value, sizeof(T));
  block->wait(Waits::kLanes, line, mask);
}

template <typename T>
T taken(unsigned lane) {
  T value;
  std::memcpy(&value, &block->now().lanes[lane], sizeof(T));
  return value;
}

// Returns the value of the lane `from` of the same `width` lanes, or one's own if there is none.
template <typename T>
T shuffled(unsigned mask, T value, int from, int width, int line) {
  exchange(mask, value, line);
  const int lane = static_cast<int>(block->now().lane), first = lane / width * width;
  return from < first || from >= first + width ? value : taken<T>(from);
}

inline unsigned converged(int line) {
  block->wait(Waits::kConverged, line);
  return block->now().mask;
}

inline unsigned ballot(unsigned mask, int predicate, int line) {
  exchange(mask, predicate != 0, line);
  unsigned found = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane)
    if (mask >> lane & 1) found |= static_cast<unsigned>(taken<bool>(lane)) << lane;
  return found;
}

}  // namespace simt

#include "memory.h"

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
#define threadIdx (simt::block->now().index)
#define blockIdx (simt::block_index)
#define blockDim (simt::block->size())
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
#define __syncthreads() simt::block->wait(simt::Waits::kBarrier, __LINE__)
#define __syncwarp(mask) simt::exchange(mask, 0, __LINE__)
#define __activemask() simt::converged(__LINE__)
#define SIMT_LANE static_cast<int>(simt::block->now().lane)
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
