// Where the tasks of a region wait for each other.
#pragma once
#include <sched.h>

#include <atomic>

namespace stitch {

// Yielding at once costs a fraction of a microsecond on an idle machine; pausing first costs tens
// of them a region when the thread waited for is on the same CPU.
template <typename Done>
void WaitFor(Done done) {
  while (!done()) sched_yield();
}

// A task that fails never arrives: it leaves instead, which counts at this barrier and all later
// ones. `left` grows first, so that whoever completes the count sees it.
class Barrier {
 public:
  void Await(int tasks) {
    int generation = generation_.load(std::memory_order_acquire);
    if (!Complete(tasks)) {
      WaitFor([&] { return generation_.load(std::memory_order_acquire) != generation; });
    }
  }

  void Leave(int tasks) {
    left_.fetch_add(1, std::memory_order_relaxed);
    Complete(tasks);
  }

 private:
  // Counts one task more; if it is the last, lets all go on.
  bool Complete(int tasks) {
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 != tasks) return false;
    arrived_.store(left_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    int next = generation_.load(std::memory_order_relaxed) + 1;
    generation_.store(next, std::memory_order_release);
    return true;
  }

  std::atomic<int> arrived_{0};
  std::atomic<int> generation_{0};
  std::atomic<int> left_{0};
};

}  // namespace stitch
