// CUDA's runtime as TVM calls it, on a machine whose GPU is this CPU: memory, copies, one stream.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace {

constexpr int kSuccess = 0, kOutOfMemory = 2, kNotCaptured = 900;
size_t limit = size_t{1} << 33;
std::mutex mutex;
std::map<uintptr_t, size_t> allocations;
size_t taken = 0;
void* waited = nullptr;

// A function of the driver's, behind which kernels are.
template <typename Result, typename... Arguments>
Result Driver(const char* name, Arguments... arguments) {
  auto found = dlsym(RTLD_DEFAULT, name);
  return reinterpret_cast<Result (*)(Arguments...)>(found)(arguments...);
}

bool Records() { return Driver<bool>("simt_records"); }

int Allocate(void** out, size_t bytes) {
  if (Records()) return kNotCaptured;
  std::lock_guard<std::mutex> lock(mutex);
  if (taken + bytes > limit) return kOutOfMemory;
  size_t room = (bytes + 255) / 256 * 256 + 256;
  *out = aligned_alloc(256, room);
  memset(*out, 0xFF, room);  // as NaN: what nobody writes shows
  allocations[reinterpret_cast<uintptr_t>(*out)] = bytes;
  taken += bytes;
  return kSuccess;
}

int Release(void* memory) {
  if (Records()) return kNotCaptured;
  std::lock_guard<std::mutex> lock(mutex);
  auto found = allocations.find(reinterpret_cast<uintptr_t>(memory));
  if (found == allocations.end()) return kSuccess;
  taken -= found->second;
  allocations.erase(found);
  free(memory);
  return kSuccess;
}

int Copy(void* to, const void* from, size_t bytes) {
  if (Records()) return kNotCaptured;
  memmove(to, from, bytes);
  return kSuccess;
}

int Attribute(int number) {
  switch (number) {
    case 1: return 1024;    // threads of a block
    case 8: return 48 << 10;  // shared memory of a block
    case 10: return 32;     // lanes of a warp
    case 12: return 65536;  // registers of a block
    case 16: return 132;    // multiprocessors
    case 75: return 9;      // sm_90
    case 76: return 0;
    case 97: return 227 << 10;  // shared memory of a block that asks for it
    default: return 1;
  }
}

}  // namespace

extern "C" {

// Bytes from a pointer to the end of its allocation, 0 for one that is in none.
size_t simt_span(const void* pointer) {
  std::lock_guard<std::mutex> lock(mutex);
  auto at = reinterpret_cast<uintptr_t>(pointer);
  auto behind = allocations.upper_bound(at);
  if (behind == allocations.begin()) return 0;
  auto [start, bytes] = *--behind;
  return at < start + bytes ? start + bytes - at : 0;
}

// Returns the stream that was waited for last, and forgets it.
void* simt_waited() {
  void* stream = waited;
  return waited = nullptr, stream;
}

// Lets no more than so many bytes be allocated.
void simt_limit(size_t bytes) { limit = bytes; }

int cudaMalloc(void** out, size_t bytes) { return Allocate(out, bytes); }
int cudaMallocHost(void** out, size_t bytes) { return Allocate(out, bytes); }
int cudaFree(void* memory) { return Release(memory); }
int cudaFreeHost(void* memory) { return Release(memory); }
int cudaMemGetInfo(size_t* free, size_t* total) {
  *free = limit - taken, *total = limit;
  return kSuccess;
}
int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int, void*) {
  return Copy(to, from, bytes);
}
int cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, void*) {
  return Copy(to, from, bytes);
}
int cudaGetDeviceCount(int* count) { return *count = 1, kSuccess; }
int cudaGetDevice(int* device) { return *device = 0, kSuccess; }
int cudaSetDevice(int device) { return device == 0 ? kSuccess : 101; }
int cudaDeviceGetAttribute(int* value, int number, int) {
  return *value = Attribute(number), kSuccess;
}
int cudaGetDeviceProperties(void* properties, int) {
  memset(properties, 0, 256);
  strcpy(static_cast<char*>(properties), "CPU");
  return kSuccess;
}
const char* cudaGetErrorName(int) { return "simulated error"; }
const char* cudaGetErrorString(int error) {
  return error == kOutOfMemory ? "out of memory" : "simulated error";
}
int cudaGetLastError() { return kSuccess; }
int cudaPeekAtLastError() { return kSuccess; }
int cudaEventCreate(void** event) { return *event = nullptr, kSuccess; }
int cudaEventDestroy(void*) { return kSuccess; }
int cudaEventElapsedTime(float* milliseconds, void*, void*) {
  return *milliseconds = 1, kSuccess;
}
int cudaEventRecord(void*, void*) { return kSuccess; }
int cudaEventSynchronize(void*) { return kSuccess; }
int cudaStreamCreate(void** stream) { return *stream = malloc(1), kSuccess; }
int cudaStreamCreateWithFlags(void** stream, unsigned) { return cudaStreamCreate(stream); }
int cudaStreamDestroy(void* stream) { return free(stream), kSuccess; }
int cudaStreamSynchronize(void* stream) {
  if (Records()) return kNotCaptured;
  return waited = stream, kSuccess;
}
int cudaStreamWaitEvent(void*, void*, unsigned) { return kSuccess; }
int cudaStreamBeginCapture(void* stream, int) {
  if (stream == nullptr || Records()) return kNotCaptured;
  return Driver<void>("simt_record"), kSuccess;
}
int cudaStreamEndCapture(void*, void** graph) {
  return *graph = Driver<void*>("simt_recorded"), kSuccess;
}
int cudaGraphDestroy(void* graph) { return Driver<void>("simt_dropped", graph), kSuccess; }
int cudaGraphExecDestroy(void* made) { return cudaGraphDestroy(made); }
int cudaGraphInstantiate(void** made, void* graph, unsigned long long) {
  return *made = Driver<void*>("simt_copied", graph), kSuccess;
}
int cudaGraphLaunch(void* made, void*) { return Driver<int>("simt_replay", made); }

}  // extern "C"
