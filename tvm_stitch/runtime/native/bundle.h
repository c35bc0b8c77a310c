// What travels with a model's code: the layout that artifact.py writes and bundle.cc reads.
#pragma once
#include <tvm/ffi/c_api.h>

#include <atomic>
#include <cstdint>

namespace stitch {

constexpr uint32_t kFormat = 3;
constexpr uint32_t kMostThreads = 1 << 16;
constexpr size_t kLine = 64;  // bytes; weights begin at a multiple

// bundle = Header, JSON, zeros up to a multiple of 8, Weight[weights]
struct Header {
  char magic[8];  // "STITCHED"
  uint32_t format;
  uint32_t threads;
  uint64_t json_bytes;
  uint64_t weights;
  uint64_t checksum;  // of the file but for its weights; artifact.py compares it
};

// In a file an address counts from the file's first byte. A weight with a kernel has none: it is
// made by the library's function tvm_stitch_prepare_<kernel> of weight number `source`, an earlier
// one.
struct Weight {
  uint64_t address;
  uint8_t dtype_code;
  uint8_t dtype_bits;
  uint16_t dtype_lanes;
  int32_t ndim;
  int64_t shape[16];
  int32_t kernel;  // -1 if stored
  uint32_t source;
};

// The last bytes of an exported file.
struct Footer {
  uint64_t bundle_offset;
  uint64_t bundle_bytes;
  char magic[8];
};

__attribute__((visibility("hidden"))) extern std::atomic<int> threads;

inline int Fail(const char* message) {
  TVMFFIErrorSetRaisedFromCStr("RuntimeError", message);
  return -1;
}

}  // namespace stitch
