// A model's weights and metadata, in place: bound by the process that compiled it, or mapped
// from the end of the file this code was loaded from, where `export` puts them. The mapping is
// never undone: a thread may still run the model when the process exits.
#include "bundle.h"

#include <dlfcn.h>
#include <dlpack/dlpack.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tvm/ffi/c_api.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

int stitch::threads = 1;

namespace {

constexpr char kMagic[] = "STITCHED";
std::mutex mutex;
std::string json;
std::vector<stitch::Weight> table;
const char* base = nullptr;  // what addresses count from
TVMFFIObjectHandle weights = nullptr;  // ffi.Array of tensors, made when first asked for

bool Read(const char* bundle, uint64_t bytes) {
  stitch::Header header;
  if (bytes < sizeof(header)) return false;
  memcpy(&header, bundle, sizeof(header));
  uint64_t start = (sizeof(header) + header.json_bytes + 7) / 8 * 8;
  if (memcmp(header.magic, kMagic, sizeof(header.magic)) != 0 || header.json_bytes > bytes ||
      header.weights > bytes / sizeof(stitch::Weight) ||
      start + header.weights * sizeof(stitch::Weight) > bytes) {
    return false;
  }
  stitch::threads = static_cast<int>(header.threads);
  json.assign(bundle + sizeof(header), header.json_bytes);
  table.resize(header.weights);
  if (header.weights) memcpy(table.data(), bundle + start, header.weights * sizeof(table[0]));
  return true;
}

void Map(int file) {
  struct stat about;
  stitch::Footer footer;
  if (fstat(file, &about) != 0 || about.st_size < static_cast<off_t>(sizeof(footer))) return;
  size_t size = static_cast<size_t>(about.st_size);
  if (pread(file, &footer, sizeof(footer), size - sizeof(footer)) != sizeof(footer)) return;
  if (memcmp(footer.magic, kMagic, sizeof(footer.magic)) != 0) return;
  if (footer.bundle_offset > size || footer.bundle_bytes > size - footer.bundle_offset) return;
  void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (memory == MAP_FAILED) return;
  base = static_cast<const char*>(memory);
  if (!Read(base + footer.bundle_offset, footer.bundle_bytes)) table.clear();
}

// At load time, while the path this code came from still means the same file.
const bool own_file_mapped = [] {
  Dl_info self;
  if (!dladdr(&mutex, &self)) return false;
  int file = open(self.dli_fname, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  Map(file);
  close(file);
  return base != nullptr;
}();

int MakeTensor(stitch::Weight* weight, TVMFFIAny* out) {
  auto* managed = static_cast<DLManagedTensor*>(calloc(1, sizeof(DLManagedTensor)));
  managed->dl_tensor.data =
      reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(base) + weight->address);
  managed->dl_tensor.device = {kDLCPU, 0};
  managed->dl_tensor.ndim = weight->ndim;
  managed->dl_tensor.dtype = {weight->dtype_code, weight->dtype_bits, weight->dtype_lanes};
  managed->dl_tensor.shape = weight->shape;
  managed->deleter = [](DLManagedTensor* self) { free(self); };
  out->type_index = kTVMFFITensor;
  out->zero_padding = 0;
  TVMFFIObjectHandle tensor = nullptr;
  int failed = TVMFFITensorFromDLPack(managed, 0, 0, &tensor);
  out->v_obj = static_cast<TVMFFIObject*>(tensor);
  return failed;
}

int MakeArray() {
  TVMFFIByteArray name = {"ffi.Array", 9};
  TVMFFIObjectHandle make = nullptr;
  if (TVMFFIFunctionGetGlobal(&name, &make) != 0) return -1;
  std::vector<TVMFFIAny> tensors(table.size());
  int failed = 0;
  for (size_t i = 0; i < table.size() && !failed; ++i) failed = MakeTensor(&table[i], &tensors[i]);
  TVMFFIAny array{};
  if (!failed) failed = TVMFFIFunctionCall(make, tensors.data(), tensors.size(), &array);
  for (TVMFFIAny& tensor : tensors) {
    if (tensor.v_obj) TVMFFIObjectDecRef(tensor.v_obj);
  }
  TVMFFIObjectDecRef(make);
  if (!failed) weights = array.v_obj;
  return failed;
}

int Fail(const char* message) {
  TVMFFIErrorSetRaisedFromCStr("RuntimeError", message);
  return -1;
}

}  // namespace

extern "C" {

// (bundle: int, bytes: int) -> None. The memory the bundle's addresses name stays the caller's.
int __tvm_ffi_tvm_stitch_bind(void*, const TVMFFIAny* args, int32_t count, TVMFFIAny*) {
  std::lock_guard<std::mutex> lock(mutex);
  if (count != 2) return Fail("tvm_stitch_bind takes an address and a size");
  if (own_file_mapped) return Fail("this library already has its weights");
  return Read(reinterpret_cast<const char*>(args[0].v_int64), args[1].v_int64)
             ? 0
             : Fail("tvm_stitch_bind was given no bundle");
}

// () -> str: what the model is, as JSON.
int __tvm_ffi_tvm_stitch_meta(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  std::lock_guard<std::mutex> lock(mutex);
  if (json.empty()) return Fail("the model's metadata is gone from the end of its file");
  TVMFFIByteArray text = {json.data(), json.size()};
  return TVMFFIStringFromByteArray(&text, result);
}

// () -> Array of tensors: the model's weights, not copied.
int __tvm_ffi_tvm_stitch_weights(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  std::lock_guard<std::mutex> lock(mutex);
  if (table.empty()) return Fail("the model's weights are gone from the end of its file");
  if (weights == nullptr && MakeArray() != 0) return -1;
  TVMFFIObjectIncRef(weights);
  result->type_index = kTVMFFIArray;
  result->zero_padding = 0;
  result->v_obj = static_cast<TVMFFIObject*>(weights);
  return 0;
}

}  // extern "C"
