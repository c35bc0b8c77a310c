// The threads of every model of this process.
//
// TVM's own pool takes half the CPUs, changes its caller's affinity, and exists once for each
// thread that ever ran a kernel. Generated code finds the launcher through a weak pointer which
// TVM's loader fills; the strong, hidden pointers at the end of this file take its place.
//
// A process has one pool: it lives in the library that was loaded first, which is never unloaded,
// and the others reach it through a function registered with TVM's FFI. They do so when they are
// loaded, one at a time: the FFI's table has no lock.
#include <dirent.h>
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <tvm/ffi/c_api.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <exception>
#include <mutex>

#include "barrier.h"
#include "bundle.h"

namespace {

// Layout and meaning of TVMParallelGroupEnv and FTVMParallelLambda, tvm/runtime/c_backend_api.h.
struct Env {
  void* barrier;
  int32_t tasks;
};
using Lambda = int (*)(int task, Env* env, void* closure);
using Launch = int (*)(Lambda lambda, void* closure, int tasks);

struct Region {
  Lambda lambda;
  void* closure;
  Env env;
  std::atomic<int> pending;
  std::atomic<TVMFFIObjectHandle> error{nullptr};
  int caller_cpu;
};

constexpr int64_t kAwakeNs = 2'000'000;  // a worker sleeps after this long without work
thread_local bool inside_region = false;

int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

// The CPUs of the first thread, or if these are too few for the tasks, those of all threads: OpenMP
// binds the first thread to a single CPU when OMP_PROC_BIND is set.
cpu_set_t ProcessCpus(int wanted) {
  cpu_set_t all;
  CPU_ZERO(&all);
  if (sched_getaffinity(getpid(), sizeof(all), &all) == 0 && CPU_COUNT(&all) >= wanted) return all;
  if (DIR* tasks = opendir("/proc/self/task")) {
    while (dirent* entry = readdir(tasks)) {
      cpu_set_t cpus;
      int thread = atoi(entry->d_name);
      if (thread > 0 && sched_getaffinity(thread, sizeof(cpus), &cpus) == 0) {
        CPU_OR(&all, &all, &cpus);
      }
    }
    closedir(tasks);
  }
  return all;
}

// Two threads that yield to each other on one CPU look busy enough to the kernel's balancer to be
// left there: a worker leaves the CPU of its caller by itself.
void LeaveCpu(int cpu, int wanted) {
  if (cpu < 0) return;
  cpu_set_t cpus = ProcessCpus(wanted);
  CPU_CLR(cpu, &cpus);
  if (CPU_COUNT(&cpus) > 0) pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
}

int RunAlone(Lambda lambda, void* closure) {
  stitch::Barrier barrier;
  Env env{&barrier, 1};
  return lambda(0, &env, closure);
}

// What a task raised, or that it said nothing.
TVMFFIObjectHandle Raised() {
  TVMFFIObjectHandle raised = nullptr;
  TVMFFIErrorMoveFromRaised(&raised);
  if (raised) return raised;
  TVMFFIErrorSetRaisedFromCStr("RuntimeError", "a kernel failed and raised nothing");
  TVMFFIErrorMoveFromRaised(&raised);
  return raised;
}

void RunTask(Region* region, int task) {
  try {
    if (region->lambda(task, &region->env, region->closure) == 0) return;
  } catch (const std::exception& thrown) {
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", thrown.what());
  }
  TVMFFIObjectHandle raised = Raised(), none = nullptr;
  if (!region->error.compare_exchange_strong(none, raised)) TVMFFIObjectDecRef(raised);
  static_cast<stitch::Barrier*>(region->env.barrier)->Leave(region->env.tasks);
}

class alignas(64) Worker {
 public:
  explicit Worker(int task) : task_(task) {}

  int task() const { return task_; }

  void Give(Region* region) {
    region_ = region;
    if (state_.exchange(kWork, std::memory_order_acq_rel) == kAsleep) {
      syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }
  }

  void Loop() {
    inside_region = true;
    while (true) {
      Await();
      Region* region = region_;
      if (sched_getcpu() == region->caller_cpu) LeaveCpu(region->caller_cpu, region->env.tasks);
      state_.store(kIdle, std::memory_order_relaxed);
      RunTask(region, task_);
      region->pending.fetch_sub(1, std::memory_order_release);
    }
  }

 private:
  enum : uint32_t { kIdle, kWork, kAsleep };

  void Await() {
    for (int64_t end = NowNs() + kAwakeNs; NowNs() < end; sched_yield()) {
      if (state_.load(std::memory_order_acquire) == kWork) return;
    }
    uint32_t idle = kIdle;
    if (!state_.compare_exchange_strong(idle, kAsleep, std::memory_order_acq_rel)) return;
    while (state_.load(std::memory_order_acquire) != kWork) {
      syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, kAsleep, nullptr, nullptr, 0);
    }
  }

  std::atomic<uint32_t> state_{kIdle};
  Region* region_{nullptr};
  int task_;
};

class Pool {
 public:
  int Run(Lambda lambda, void* closure, int tasks) {
    // Asked here and not by the library that launches, which may be another than the pool's.
    if (inside_region) return RunAlone(lambda, closure);
    // One region at a time: a task may wait at a barrier for all the others.
    std::lock_guard<std::mutex> lock(mutex_);
    if (int failed = Grow(tasks - 1)) {
      TVMFFIErrorSetRaisedFromCStr("RuntimeError", "cannot start the model's worker threads");
      return failed;
    }
    stitch::Barrier barrier;
    Region region{lambda, closure, {&barrier, tasks}, {tasks - 1}, {nullptr}, sched_getcpu()};
    for (int i = 0; i < tasks - 1; ++i) workers_[i].Give(&region);
    inside_region = true;
    RunTask(&region, 0);
    inside_region = false;
    stitch::WaitFor([&] { return region.pending.load(std::memory_order_acquire) == 0; });
    TVMFFIObjectHandle error = region.error.load();
    if (error == nullptr) return 0;
    TVMFFIErrorSetRaised(error);
    TVMFFIObjectDecRef(error);
    return -1;
  }

 private:
  int Grow(int count) {
    while (static_cast<int>(workers_.size()) < count) {
      workers_.emplace_back(static_cast<int>(workers_.size()) + 1);
      if (Start(&workers_.back()) != 0) {
        workers_.pop_back();
        return -1;
      }
    }
    return 0;
  }

  static int Start(Worker* worker) {
    auto body = [](void* self) -> void* {
      static_cast<Worker*>(self)->Loop();
      return nullptr;
    };
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    // The process's CPUs, not those its caller happens to be bound to.
    cpu_set_t cpus = ProcessCpus(worker->task() + 1);
    if (CPU_COUNT(&cpus) > 0) pthread_attr_setaffinity_np(&attr, sizeof(cpus), &cpus);
    // Signals go to the threads that expect them.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    int failed = pthread_create(&thread, &attr, body, worker);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attr);
    return failed;
  }

  std::mutex mutex_;
  std::deque<Worker> workers_;
};

// Never destroyed: its threads run until the process ends. A forked child has none of them, and may
// have its lock held by a thread that it has not, so it starts over.
std::atomic<Pool*> pool{nullptr};

int LaunchInPool(Lambda lambda, void* closure, int tasks) {
  return pool.load(std::memory_order_acquire)->Run(lambda, closure, tasks);
}

int ReturnLaunch(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  result->type_index = kTVMFFIOpaquePtr;
  result->zero_padding = 0;
  result->v_ptr = reinterpret_cast<void*>(&LaunchInPool);
  return 0;
}

constexpr TVMFFIByteArray kRegisteredName = {"tvm_stitch.parallel_launch.v1", 29};

Launch RegisteredLaunch() {
  TVMFFIObjectHandle getter = nullptr;
  if (TVMFFIFunctionGetGlobal(&kRegisteredName, &getter) != 0 || getter == nullptr) return nullptr;
  TVMFFIAny result{};
  int failed = TVMFFIFunctionCall(getter, nullptr, 0, &result);
  TVMFFIObjectDecRef(getter);
  return failed ? nullptr : reinterpret_cast<Launch>(result.v_ptr);
}

Launch FindOrStartPool() {
  if (Launch launch = RegisteredLaunch()) return launch;
  pool.store(new Pool, std::memory_order_release);
  pthread_atfork(nullptr, nullptr, [] { pool.store(new Pool, std::memory_order_release); });
  TVMFFIObjectHandle getter = nullptr;
  Dl_info self;
  if (TVMFFIFunctionCreate(nullptr, ReturnLaunch, nullptr, &getter) == 0 &&
      dladdr(reinterpret_cast<void*>(&LaunchInPool), &self) &&
      dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE)) {
    TVMFFIFunctionSetGlobal(&kRegisteredName, getter, 0);
  }
  return &LaunchInPool;
}

const Launch process_launch = FindOrStartPool();

int LaunchRegion(Lambda lambda, void* closure, int tasks) {
  if (tasks == 0) tasks = stitch::threads.load(std::memory_order_relaxed);
  return tasks <= 1 ? RunAlone(lambda, closure) : process_launch(lambda, closure, tasks);
}

int AwaitBarrier(int, Env* env) {
  static_cast<stitch::Barrier*>(env->barrier)->Await(env->tasks);
  return 0;
}

}  // namespace

extern "C" {
__attribute__((visibility("hidden"))) Launch __TVMBackendParallelLaunch = &LaunchRegion;
__attribute__((visibility("hidden"))) int (*__TVMBackendParallelBarrier)(int, Env*) =
    &AwaitBarrier;
}
