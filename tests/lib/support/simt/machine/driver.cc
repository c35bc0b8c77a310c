// CUDA's driver as TVM calls it: modules are lists of kernels, each the library that simulates it.
//
//     kernel /path/of/its/library.so 3        arrays
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Kernel {
  size_t arrays = 0;
  const size_t* items;  // bytes of an element of each
  const char* (*run)(void**, const size_t*, const unsigned*, const unsigned*, unsigned, bool);
};
using Module = std::map<std::string, Kernel>;

struct Launch {
  unsigned grid[3], threads[3], shared;
  void* stream;
};

// A launch as a graph keeps it.
struct Recorded {
  Kernel* kernel;
  Launch launch;
  std::vector<void*> pointers;
};

constexpr int kSuccess = 0, kInvalidImage = 200, kNotFound = 500, kLaunchFailed = 719,
              kNotCaptured = 906;
unsigned launches = 0, replays = 0;
std::vector<Recorded>* recording = nullptr;

size_t Span(const void* pointer) {
  static auto span = reinterpret_cast<size_t (*)(const void*)>(dlsym(RTLD_DEFAULT, "simt_span"));
  return span(pointer);
}

int Run(const Recorded& each) {
  std::vector<void*> pointers = each.pointers;
  std::vector<size_t> counts;
  for (size_t i = 0; i < pointers.size(); ++i) {
    counts.push_back(Span(pointers[i]) / each.kernel->items[i]);
  }
  const char* failed = each.kernel->run(pointers.data(), counts.data(), each.launch.grid,
                                        each.launch.threads, ++launches, false);
  if (failed != nullptr) fprintf(stderr, "%s\n", failed);
  return failed == nullptr ? kSuccess : kLaunchFailed;
}

}  // namespace

extern "C" {

// How many kernels have been launched, and how many graphs.
unsigned simt_launches() { return launches; }
unsigned simt_replays() { return replays; }

// From now on launches are kept, until simt_recorded() returns what there were.
void simt_record() { recording = new std::vector<Recorded>; }
void* simt_recorded() {
  void* made = recording;
  recording = nullptr;
  return made;
}
bool simt_records() { return recording != nullptr; }

int simt_replay(void* graph) {
  ++replays;
  for (const Recorded& each : *static_cast<std::vector<Recorded>*>(graph)) {
    if (int failed = Run(each)) return failed;
  }
  return kSuccess;
}
void* simt_copied(void* graph) {
  return new std::vector<Recorded>(*static_cast<std::vector<Recorded>*>(graph));
}
void simt_dropped(void* graph) { delete static_cast<std::vector<Recorded>*>(graph); }

int cuModuleLoadData(void** out, const void* image) {
  auto* made = new Module;
  std::istringstream lines(static_cast<const char*>(image));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, path;
    words >> name >> path;
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return kInvalidImage;
    Kernel kernel;
    kernel.run = reinterpret_cast<decltype(kernel.run)>(dlsym(library, "simt_run"));
    kernel.items = static_cast<const size_t*>(dlsym(library, "simt_items"));
    words >> kernel.arrays;
    (*made)[name] = kernel;
  }
  *out = made;
  return kSuccess;
}
int cuModuleUnload(void* module) {
  delete static_cast<Module*>(module);
  return kSuccess;
}
int cuModuleGetFunction(void** out, void* module, const char* name) {
  auto* kernels = static_cast<Module*>(module);
  auto found = kernels->find(name);
  if (found == kernels->end()) return kNotFound;
  *out = &found->second;
  return kSuccess;
}
int cuLaunchKernelEx(const Launch* launch, void* function, void** arguments, void**) {
  Recorded each{static_cast<Kernel*>(function), *launch, {}};
  for (size_t i = 0; i < each.kernel->arrays; ++i) {
    each.pointers.push_back(*static_cast<void**>(arguments[i]));
  }
  if (recording == nullptr) return Run(each);
  if (launch->stream == nullptr) return kNotCaptured;  // beside the stream that is recorded
  recording->push_back(each);
  return kSuccess;
}
int cuFuncSetAttribute(void*, int, int) { return kSuccess; }
int cuTensorMapEncodeTiled() { return kNotFound; }
int cuDeviceGetName(char* name, int bytes, int) {
  snprintf(name, bytes, "CPU");
  return kSuccess;
}
int cuGetErrorName(int, const char** text) {
  *text = "simulated error";
  return kSuccess;
}
int cuGetErrorString(int, const char** text) {
  *text = "simulated error";
  return kSuccess;
}

}  // extern "C"
