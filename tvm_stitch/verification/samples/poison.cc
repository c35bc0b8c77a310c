// Fill what a kernel is about to get as uninitialised memory of its thread: the stack below its
// caller's, and workspaces of the sizes that it will ask for.
#include <cstdint>
#include <cstring>

extern "C" {

void* TVMBackendAllocWorkspace(int device, int id, uint64_t bytes, int code, int bits);
int TVMBackendFreeWorkspace(int device, int id, void* memory);

__attribute__((noinline)) void poison_stack(int byte) {
  volatile char memory[1 << 20];
  for (volatile char& each : memory) each = static_cast<char>(byte);
}

void poison_workspaces(int byte, const uint64_t* bytes, int count) {
  constexpr int kCpu = 1, kFloat = 2, kBits = 32, kMost = 64;
  void* memory[kMost];
  count = count < kMost ? count : kMost;
  for (int i = 0; i < count; ++i) {
    memory[i] = TVMBackendAllocWorkspace(kCpu, 0, bytes[i], kFloat, kBits);
    if (memory[i]) memset(memory[i], byte, bytes[i]);
  }
  while (count-- > 0) {
    if (memory[count]) TVMBackendFreeWorkspace(kCpu, 0, memory[count]);
  }
}

}  // extern "C"
