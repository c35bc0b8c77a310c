// A library with a pool in it as a model's is, and tasks to launch: two stand for two models.
#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "bundle.h"

std::atomic<int> stitch::threads{2};

struct Env {
  void* barrier;
  int tasks;
};
using Lambda = int (*)(int task, Env* env, void* closure);
using Launch = int (*)(Lambda lambda, void* closure, int tasks);

extern "C" {
extern Launch __TVMBackendParallelLaunch;
extern int (*__TVMBackendParallelBarrier)(int, Env*);
}

namespace {

constexpr int kPhases = 8, kMostTasks = 5;

enum How { kRight, kReturns, kThrows, kRaces };

// Each phase reads what the task beside it wrote in the phase before; task `fails` ends behind the
// second barrier.
struct Phases {
  How how = kRight;
  int fails = 0;
  std::atomic<int> tasks{0};
  int values[kPhases + 1][kMostTasks] = {};
  int raced = 0;
};

int RunPhases(int task, Env* env, void* closure) {
  auto* phases = static_cast<Phases*>(closure);
  phases->tasks = env->tasks;
  phases->values[0][task] = task;
  for (int phase = 0; phase < kPhases; ++phase) {
    if (phases->how == kRaces) ++phases->raced;
    __TVMBackendParallelBarrier(task, env);
    bool fails = task == phases->fails && phase == 1;
    if (fails && phases->how == kReturns) return -1;
    if (fails && phases->how == kThrows) throw std::runtime_error("thrown by a task");
    phases->values[phase + 1][task] = phases->values[phase][(task + 1) % env->tasks];
  }
  return 0;
}

bool IsRight(const Phases& phases) {
  for (int task = 0; task < phases.tasks; ++task) {
    if (phases.values[kPhases][task] != (task + kPhases) % phases.tasks) return false;
  }
  return true;
}

int LaunchPhases(Phases* phases, int tasks) {
  return __TVMBackendParallelLaunch(RunPhases, phases, tasks);
}

struct Nested {
  Launch other;
  std::atomic<int> runs{0};
};

int CountRun(int, Env* env, void* closure) {
  if (env->tasks == 1) static_cast<Nested*>(closure)->runs.fetch_add(1);
  return 0;
}

int RunNested(int, Env*, void* closure) {
  auto* nested = static_cast<Nested*>(closure);
  return nested->other(CountRun, nested, 3);
}

}  // namespace

extern "C" {

Launch pool_launch() { return __TVMBackendParallelLaunch; }

void pool_resize(int threads) { stitch::threads = threads; }

// Launches of each of `callers` threads, every third of as many tasks as pool_resize says; returns
// how many were wrong.
int pool_phases(int callers, int launches, int seed) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int caller = 0; caller < callers; ++caller) {
    threads.emplace_back([&, caller] {
      for (int i = seed + caller; i < seed + caller + launches; ++i) {
        Phases phases;
        int tasks = i % 3 ? 2 + i % (kMostTasks - 1) : 0;
        if (LaunchPhases(&phases, tasks) || !IsRight(phases)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

// Launches of which one task fails; returns how many failed.
int pool_failures(int launches, int tasks) {
  int failed = 0;
  for (int i = 0; i < launches; ++i) {
    Phases phases;
    phases.fails = i % tasks;
    phases.how = i % 2 ? kThrows : kReturns;
    if (LaunchPhases(&phases, tasks)) ++failed;
  }
  return failed;
}

// Launches whose tasks launch by `other`; returns how many tasks of these ran alone.
int pool_nested(Launch other, int launches, int tasks) {
  Nested nested{other};
  for (int i = 0; i < launches; ++i) __TVMBackendParallelLaunch(RunNested, &nested, tasks);
  return nested.runs;
}

// A data race, which ThreadSanitizer must report.
void pool_race() {
  Phases phases;
  phases.how = kRaces;
  LaunchPhases(&phases, 2);
}

}  // extern "C"
