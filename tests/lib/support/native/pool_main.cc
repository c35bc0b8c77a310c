// Two libraries of pool_driver.cc in one process: `pool_main FIRST.so SECOND.so SCENE SEED`.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>

namespace {

template <typename Function>
Function* Find(void* library, const char* name) {
  auto found = library ? dlsym(library, name) : nullptr;
  if (!found) std::fprintf(stderr, "%s\n", dlerror()), std::exit(2);
  return reinterpret_cast<Function*>(found);
}

struct Library {
  explicit Library(const char* path) : handle(dlopen(path, RTLD_NOW)) {}

  void* handle;
  void* (*launch)() = Find<void*()>(handle, "pool_launch");
  void (*resize)(int) = Find<void(int)>(handle, "pool_resize");
  int (*phases)(int, int, int) = Find<int(int, int, int)>(handle, "pool_phases");
  int (*failures)(int, int) = Find<int(int, int)>(handle, "pool_failures");
  int (*nested)(void*, int, int) = Find<int(void*, int, int)>(handle, "pool_nested");
  void (*race)() = Find<void()>(handle, "pool_race");
};

void Expect(const char* what, int got, int wanted) {
  if (got != wanted) std::fprintf(stderr, "%s: %d, not %d\n", what, got, wanted), std::exit(1);
}

// Several threads of both libraries, while the number of tasks changes.
void Launches(Library& first, Library& second, int seed) {
  std::thread other([&] { Expect("wrong in the second", second.phases(2, 100, seed + 1), 0); });
  std::thread resizer([&] {
    for (int i = 0; i < 100; ++i) first.resize(2 + (seed + i) % 4), std::this_thread::yield();
  });
  Expect("wrong in the first", first.phases(3, 100, seed), 0);
  other.join();
  resizer.join();
}

void Failures(Library& first, Library& second, int seed) {
  for (Library* library : {&first, &second}) {
    Expect("failed", library->failures(40, 2 + seed % 4), 40);
    Expect("wrong behind failures", library->phases(2, 20, seed), 0);
  }
}

// The pool is the first's; tasks of the one launch by the other, from two threads at a time.
void Nestings(Library& first, Library& second, int seed) {
  Expect("wrong", first.phases(1, 1, seed), 0);
  int tasks = 2 + seed % 4;
  std::thread other([&] {
    Expect("run in the first", second.nested(first.launch(), 50, tasks), 50 * tasks);
  });
  Expect("run in the second", first.nested(second.launch(), 50, tasks), 50 * tasks);
  Expect("run in itself", second.nested(second.launch(), 50, tasks), 50 * tasks);
  other.join();
}

// Children of a process whose other thread launches all the time, the pool's first launch too.
void Forks(Library& first, Library& second, int seed) {
  std::atomic<bool> done{false};
  std::thread busy([&] {
    while (!done) Expect("wrong in the parent", first.phases(1, 20, seed), 0);
  });
  for (int i = 0; i < 50; ++i) {
    pid_t child = fork();
    if (child == 0) {
      alarm(10);
      _exit(first.phases(1, 5, seed + i) || second.phases(1, 5, seed + i));
    }
    int status = -1;
    waitpid(child, &status, 0);
    Expect("a child's status", status, 0);
  }
  done = true;
  busy.join();
}

void Race(Library& first, Library&, int) { first.race(); }

const std::map<std::string, std::function<void(Library&, Library&, int)>> kScenes = {
    {"launches", Launches}, {"failures", Failures}, {"nested", Nestings},
    {"forks", Forks},       {"race", Race},
};

}  // namespace

int main(int, char** argv) {
  Library first(argv[1]), second(argv[2]);
  alarm(120);
  kScenes.at(argv[3])(first, second, std::atoi(argv[4]));
  return 0;
}
