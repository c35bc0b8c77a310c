// Tensors that outlive the library which makes them.
#pragma once
#include <dlpack/dlpack.h>
#include <tvm/ffi/c_api.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "bundle.h"

namespace stitch {

// A tensor of `data`, or of `bytes` behind its record. The record, with the shape in it, is what
// `free` takes: a function of this library might be gone before the tensor is.
inline TVMFFIObjectHandle NewTensor(const int64_t* shape, int32_t ndim, DLDataType dtype,
                                    void* data, size_t bytes) {
  struct Record {
    DLManagedTensor managed;
    int64_t shape[16];
  };
  constexpr size_t kRecord = (sizeof(Record) + kLine - 1) / kLine * kLine;
  size_t room = (bytes + kLine - 1) / kLine * kLine;
  auto* record = static_cast<Record*>(aligned_alloc(kLine, kRecord + room));
  if (record == nullptr) return nullptr;
  memset(record, 0, sizeof(Record));
  std::copy_n(shape, ndim, record->shape);
  DLTensor& tensor = record->managed.dl_tensor;
  tensor = {data ? data : reinterpret_cast<char*>(record) + kRecord, {kDLCPU, 0}, ndim, dtype,
            record->shape, nullptr, 0};
  record->managed.deleter = reinterpret_cast<void (*)(DLManagedTensor*)>(free);
  TVMFFIObjectHandle made = nullptr;
  return TVMFFITensorFromDLPack(&record->managed, 0, 0, &made) == 0 ? made : nullptr;
}

}  // namespace stitch
