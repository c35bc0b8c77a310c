// A model's weights and metadata, in place: bound by the process that compiled it, or mapped
// from the end of the file this code was loaded from, where `export` puts them. The mapping is
// never undone: a thread may still run the model when the process exits. Weights that the library
// makes of others are computed when weights are first asked for.
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
#include <utility>
#include <vector>

std::atomic<int> stitch::threads{1};

namespace {

constexpr char kMagic[] = "STITCHED";
constexpr size_t kLine = 64;
using Function = int (*)(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);

std::mutex mutex;
std::string json;
std::vector<stitch::Weight> table;
const char* base = nullptr;  // what addresses count from
TVMFFIObjectHandle weights = nullptr;  // ffi.Array of tensors, made when first asked for

// What a weight's elements take, or -1 if no tensor has such a record.
int64_t Bytes(const stitch::Weight& weight) {
  if (weight.ndim < 0 || weight.ndim > 16) return -1;
  int64_t bytes = (weight.dtype_bits * weight.dtype_lanes + 7) / 8;
  for (int32_t axis = 0; axis < weight.ndim; ++axis) {
    if (weight.shape[axis] < 0 || __builtin_mul_overflow(bytes, weight.shape[axis], &bytes)) {
      return -1;
    }
  }
  return bytes;
}

bool IsSound(const stitch::Weight& weight, size_t number, uint64_t memory) {
  int64_t bytes = Bytes(weight);
  if (bytes < 0) return false;
  if (weight.kernel >= 0) return weight.source < number;
  return weight.address <= memory && static_cast<uint64_t>(bytes) <= memory - weight.address;
}

// Addresses in a bundle are below `memory`.
bool Read(const char* bundle, uint64_t bytes, uint64_t memory) {
  stitch::Header header;
  if (bytes < sizeof(header)) return false;
  memcpy(&header, bundle, sizeof(header));
  uint64_t start = (sizeof(header) + header.json_bytes + 7) / 8 * 8;
  if (memcmp(header.magic, kMagic, sizeof(header.magic)) != 0 || header.json_bytes > bytes ||
      header.weights > bytes / sizeof(stitch::Weight) ||
      start + header.weights * sizeof(stitch::Weight) > bytes) {
    return false;
  }
  std::vector<stitch::Weight> records(header.weights);
  if (header.weights) memcpy(records.data(), bundle + start, header.weights * sizeof(records[0]));
  for (size_t i = 0; i < records.size(); ++i) {
    if (!IsSound(records[i], i, memory)) return false;
  }
  stitch::threads = static_cast<int>(header.threads);
  json.assign(bundle + sizeof(header), header.json_bytes);
  table = std::move(records);
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
  Read(base + footer.bundle_offset, footer.bundle_bytes, size);
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

int Fail(const char* message) {
  TVMFFIErrorSetRaisedFromCStr("RuntimeError", message);
  return -1;
}

// A tensor of a weight's record, and room for its elements behind it if nothing stores them.
int MakeTensor(stitch::Weight* weight, TVMFFIAny* out) {
  static_assert(sizeof(DLManagedTensor) <= kLine, "elements begin a line behind it");
  bool stored = weight->kernel < 0;
  size_t room = stored ? 0 : (static_cast<size_t>(Bytes(*weight)) + kLine - 1) / kLine * kLine;
  auto* managed = static_cast<DLManagedTensor*>(aligned_alloc(kLine, kLine + room));
  if (managed == nullptr) return Fail("no memory for the model's prepared weights");
  memset(managed, 0, kLine);
  managed->dl_tensor.data =
      stored ? reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(base) + weight->address)
             : reinterpret_cast<char*>(managed) + kLine;
  managed->dl_tensor.device = {kDLCPU, 0};
  managed->dl_tensor.ndim = weight->ndim;
  managed->dl_tensor.dtype = {weight->dtype_code, weight->dtype_bits, weight->dtype_lanes};
  managed->dl_tensor.shape = weight->shape;
  // A function of this library might be gone before the tensor is.
  managed->deleter = reinterpret_cast<void (*)(DLManagedTensor*)>(free);
  TVMFFIObjectHandle tensor = nullptr;
  int failed = TVMFFITensorFromDLPack(managed, 0, 0, &tensor);
  out->type_index = kTVMFFITensor;
  out->v_obj = static_cast<TVMFFIObject*>(tensor);
  return failed;
}

// The function of this library that prepares weights, or null.
Function FindKernel(int32_t number) {
  Dl_info self;
  if (!dladdr(&mutex, &self)) return nullptr;
  void* library = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  std::string name = "__tvm_ffi_tvm_stitch_prepare_" + std::to_string(number);
  auto found = reinterpret_cast<Function>(dlsym(library, name.c_str()));
  dlclose(library);
  return found;
}

int Prepare(const stitch::Weight& weight, TVMFFIAny source, TVMFFIAny made) {
  Function kernel = FindKernel(weight.kernel);
  if (kernel == nullptr) return Fail("the model's code has no function for a prepared weight");
  TVMFFIAny arguments[] = {source, made};
  TVMFFIAny result{};
  return kernel(nullptr, arguments, 2, &result);
}

int MakeArray() {
  TVMFFIByteArray name = {"ffi.Array", 9};
  TVMFFIObjectHandle make = nullptr;
  if (TVMFFIFunctionGetGlobal(&name, &make) != 0) return -1;
  std::vector<TVMFFIAny> tensors(table.size());
  int failed = 0;
  for (size_t i = 0; i < table.size() && !failed; ++i) {
    failed = MakeTensor(&table[i], &tensors[i]);
    if (failed || table[i].kernel < 0) continue;
    failed = Prepare(table[i], tensors[table[i].source], tensors[i]);
  }
  TVMFFIAny array{};
  if (!failed) failed = TVMFFIFunctionCall(make, tensors.data(), tensors.size(), &array);
  for (TVMFFIAny& tensor : tensors) {
    if (tensor.v_obj) TVMFFIObjectDecRef(tensor.v_obj);
  }
  TVMFFIObjectDecRef(make);
  if (!failed) weights = array.v_obj;
  return failed;
}

// A tensor in the memory of another, which it keeps alive.
struct Placed {
  DLManagedTensor managed;
  TVMFFIObjectHandle arena;
  int64_t shape[1];
};

void DeletePlaced(DLManagedTensor* managed) {
  auto* placed = static_cast<Placed*>(managed->manager_ctx);
  TVMFFIObjectDecRef(placed->arena);
  free(placed);
}

// TVM's machine names a dtype where a call is instrumented, and gives it as it is elsewhere.
bool ReadDataType(const TVMFFIAny& given, DLDataType* dtype) {
  if (given.type_index == kTVMFFIDataType) *dtype = given.v_dtype;
  if (given.type_index != kTVMFFIRawStr) return given.type_index == kTVMFFIDataType;
  TVMFFIByteArray name = {given.v_c_str, strlen(given.v_c_str)};
  return TVMFFIDataTypeFromString(&name, dtype) == 0;
}

int Place(const TVMFFIAny& arena, int64_t offset, const TVMFFIShapeCell& shape, DLDataType dtype,
          TVMFFIAny* result) {
  auto* placed = static_cast<Placed*>(malloc(sizeof(Placed) + shape.size * sizeof(int64_t)));
  if (placed == nullptr) return Fail("no memory for a tensor");
  DLTensor* memory = TVMFFITensorGetDLTensorPtr(arena.v_obj);
  memcpy(placed->shape, shape.data, shape.size * sizeof(int64_t));
  placed->managed = {};
  placed->managed.dl_tensor.data = static_cast<char*>(memory->data) + offset;
  placed->managed.dl_tensor.device = memory->device;
  placed->managed.dl_tensor.ndim = static_cast<int32_t>(shape.size);
  placed->managed.dl_tensor.dtype = dtype;
  placed->managed.dl_tensor.shape = placed->shape;
  placed->managed.manager_ctx = placed;
  placed->managed.deleter = DeletePlaced;
  placed->arena = arena.v_obj;
  TVMFFIObjectIncRef(placed->arena);
  TVMFFIObjectHandle tensor = nullptr;
  int failed = TVMFFITensorFromDLPack(&placed->managed, 0, 0, &tensor);
  result->type_index = kTVMFFITensor;
  result->zero_padding = 0;
  result->v_obj = static_cast<TVMFFIObject*>(tensor);
  return failed;
}

}  // namespace

extern "C" {

// (arena: tensor, offset: int, shape, dtype) -> tensor: a part of the arena, bytes from its start.
int __tvm_ffi_tvm_stitch_place(void*, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  DLDataType dtype;
  if (count != 4 || args[0].type_index != kTVMFFITensor || args[2].type_index != kTVMFFIShape ||
      !ReadDataType(args[3], &dtype)) {
    return Fail("tvm_stitch_place takes a tensor, an offset, a shape and a dtype");
  }
  return Place(args[0], args[1].v_int64, *TVMFFIShapeGetCellPtr(args[2].v_obj), dtype, result);
}

// (bundle: int, bytes: int) -> None. The memory the bundle's addresses name stays the caller's.
int __tvm_ffi_tvm_stitch_bind(void*, const TVMFFIAny* args, int32_t count, TVMFFIAny*) {
  std::lock_guard<std::mutex> lock(mutex);
  if (count != 2) return Fail("tvm_stitch_bind takes an address and a size");
  if (own_file_mapped) return Fail("this library already has its weights");
  auto* bundle = reinterpret_cast<const char*>(args[0].v_int64);
  return Read(bundle, args[1].v_int64, UINT64_MAX)
             ? 0
             : Fail("tvm_stitch_bind was given no bundle");
}

// (threads: int) -> int: how many run each kernel from now on; returns how many did.
int __tvm_ffi_tvm_stitch_threads(void*, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  if (count != 1 || args[0].v_int64 < 1) return Fail("tvm_stitch_threads takes a positive number");
  result->type_index = kTVMFFIInt;
  result->zero_padding = 0;
  result->v_int64 = stitch::threads.exchange(static_cast<int>(args[0].v_int64));
  return 0;
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

// () -> None: give back the memory of prepared weights, until weights are asked for again.
int __tvm_ffi_tvm_stitch_release(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  std::lock_guard<std::mutex> lock(mutex);
  if (weights != nullptr) TVMFFIObjectDecRef(weights);
  weights = nullptr;
  return 0;
}

}  // extern "C"
