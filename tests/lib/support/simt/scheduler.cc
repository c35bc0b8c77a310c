// Lets the threads of a kernel run, as fibers of one CPU thread.
//
// A thread runs until it meets others: at a barrier, a shuffle, a vote, or its end. Who goes next is
// drawn, so that what one thread reads of another without a barrier between is another's in some
// order; in every other block, also drawn, warps go one before the other as far as they can. Shared
// memory begins as NaN, in every block.
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "requests.h"
#include "simt.h"

// Of the kernel: it runs the thread that is now.
void simt_kernel(void** arguments, const size_t* counts);
extern "C" char __start_simt_shared[], __stop_simt_shared[];
__attribute__((section("simt_shared"), used)) static char simt_not_empty[64];

namespace simt {

Lane* now = nullptr;
dim3 block_index, block_size, grid_size;

namespace {

constexpr size_t kStack = 256 << 10;
constexpr int kPoison = 0xFF;  // four of it are a NaN
void** kernel_arguments;
const size_t* kernel_counts;

struct Thread : Lane {
  ucontext_t context;
  Waits waits = Waits::kNot;
  int line = 0;  // of the source, where it waits
};

struct Failure {
  std::string what;
};

class Block {
 public:
  Block(dim3 size, unsigned seed)
      : size_(size), rng_(seed), threads_(size.count()), stacks_(new char[size.count() * kStack]) {}

  // Runs the kernel once for each thread; throws Failure where threads never meet.
  void run() {
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

  unsigned draw(unsigned below) { return std::uniform_int_distribution<unsigned>(0, below - 1)(rng_); }

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
    thread.number = number;
    thread.lane = number % kWarp;
    thread.index = {number % size_.x, number / size_.x % size_.y, number / size_.x / size_.y};
    thread.waits = Waits::kNot;
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = stacks_.get() + number * kStack;
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
      now = now_;
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
  std::unique_ptr<char[]> stacks_;  // only what a thread uses of its own is ever touched
  ucontext_t scheduler_;
  Thread* now_ = nullptr;
  std::string failure_;
};

Block* block = nullptr;
std::string failed;

void Block::enter() {
  simt_kernel(kernel_arguments, kernel_counts);
  block->now_->waits = Waits::kDone;
}

}  // namespace

void wait(Waits waits, int line, unsigned mask) { block->wait(waits, line, mask); }
void stop(const char* what, long long number, int line) { block->stop(what, number, line); }

}  // namespace simt

// Returns what is wrong, or nullptr. `counts` are the elements of each argument. Blocks go one after
// the other, in an order drawn of the seed.
extern "C" const char* simt_run(void** args, const size_t* counts, const unsigned* grid, const unsigned* threads,
                                unsigned seed, bool counting) {
  simt::forget_requests();
  simt::counting = counting;
  simt::kernel_arguments = args;
  simt::kernel_counts = counts;
  simt::grid_size = {grid[0], grid[1], grid[2]};
  simt::block_size = {threads[0], threads[1], threads[2]};
  std::vector<unsigned> order(simt::grid_size.count());
  for (unsigned n = 0; n < order.size(); ++n) order[n] = n;
  std::mt19937 rng(seed);
  std::shuffle(order.begin(), order.end(), rng);
  simt::Block block(simt::block_size, seed);
  simt::block = &block;
  try {
    for (unsigned n : order) {
      simt::block_index = {n % grid[0], n / grid[0] % grid[1], n / grid[0] / grid[1]};
      std::memset(__start_simt_shared, simt::kPoison, __stop_simt_shared - __start_simt_shared);
      block.run();
      simt::settle_requests();
    }
  } catch (const simt::Failure& failure) {
    simt::failed = failure.what;
    return simt::failed.c_str();
  }
  return nullptr;
}
