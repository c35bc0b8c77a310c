// A model's weights and metadata: bound by the process that compiled or loaded it, or read from the
// end of the file this code was loaded from, where `export` puts them. They are copied, as the file
// may change while the model is loaded, and given back when the last tensor of them is gone, be it
// after this library. Weights that the library makes of others are computed when weights are first
// asked for.
#include "bundle.h"

#include <dlfcn.h>
#include <dlpack/dlpack.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <tvm/ffi/c_api.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tensor.h"

std::atomic<int> stitch::threads{1};

namespace {

constexpr char kMagic[] = "STITCHED";
using Function = int (*)(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);

std::mutex mutex;
std::string json;
std::vector<stitch::Weight> table;
uintptr_t base = 0;  // what addresses count from
TVMFFIObjectHandle stored = nullptr;  // tensor of what the file has of weights, if they are read
TVMFFIObjectHandle weights = nullptr;  // ffi.Array of tensors, made when first asked for
TVMFFIObjectHandle device_weights = nullptr;  // the same on a GPU

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
  return weight.address <= memory && static_cast<uint64_t>(bytes) <= memory - weight.address &&
         (bytes == 0 || weight.address % stitch::kLine == 0);
}

// Addresses in a bundle are below `memory`.
bool Read(const char* bundle, uint64_t bytes, uint64_t memory) {
  stitch::Header header;
  if (bytes < sizeof(header)) return false;
  memcpy(&header, bundle, sizeof(header));
  uint64_t start = (sizeof(header) + header.json_bytes + 7) / 8 * 8;
  if (memcmp(header.magic, kMagic, sizeof(header.magic)) != 0 ||
      header.format != stitch::kFormat || header.threads < 1 ||
      header.threads > stitch::kMostThreads || header.json_bytes > bytes ||
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

bool ReadAt(int file, void* memory, uint64_t bytes, uint64_t offset) {
  auto* to = static_cast<char*>(memory);
  while (bytes > 0) {
    ssize_t got = pread(file, to, bytes, offset);
    if (got <= 0) return false;
    to += got, offset += got, bytes -= got;
  }
  return true;
}

// Copies what lies between the first stored weight and the end of the last.
bool ReadWeights(int file) {
  uint64_t begin = UINT64_MAX, end = 0;
  for (const stitch::Weight& weight : table) {
    if (weight.kernel >= 0) continue;
    begin = std::min(begin, weight.address);
    end = std::max(end, weight.address + static_cast<uint64_t>(Bytes(weight)));
  }
  if (end == 0) return true;
  int64_t bytes = static_cast<int64_t>(end - begin);
  stored = stitch::NewTensor(&bytes, 1, {kDLUInt, 8, 1}, nullptr, bytes);
  if (stored == nullptr) return false;
  void* memory = TVMFFITensorGetDLTensorPtr(stored)->data;
  base = reinterpret_cast<uintptr_t>(memory) - begin;
  return ReadAt(file, memory, bytes, begin);
}

bool ReadFile(int file) {
  struct stat about;
  stitch::Footer footer;
  if (fstat(file, &about) != 0 || about.st_size < static_cast<off_t>(sizeof(footer))) return false;
  uint64_t size = about.st_size;
  if (!ReadAt(file, &footer, sizeof(footer), size - sizeof(footer))) return false;
  if (memcmp(footer.magic, kMagic, sizeof(footer.magic)) != 0) return false;
  if (footer.bundle_offset > size || footer.bundle_bytes > size - footer.bundle_offset) return true;
  std::vector<char> bundle(footer.bundle_bytes);
  if (!ReadAt(file, bundle.data(), bundle.size(), footer.bundle_offset) ||
      !Read(bundle.data(), bundle.size(), footer.bundle_offset) || !ReadWeights(file)) {
    table.clear();
  }
  return true;
}

// At load time, while the path this code came from still means the same file. A fork waits for
// weights being made.
const bool own_file_read = [] {
  auto lock = [] { mutex.lock(); };
  auto unlock = [] { mutex.unlock(); };
  pthread_atfork(lock, unlock, unlock);
  Dl_info self;
  if (!dladdr(&mutex, &self)) return false;
  int file = open(self.dli_fname, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  bool read = ReadFile(file);
  close(file);
  return read;
}();

void Drop(TVMFFIObjectHandle* object) {
  if (*object != nullptr) TVMFFIObjectDecRef(*object);
  *object = nullptr;
}

// When the library is unloaded. Where the process exits, another thread may still run the model: it
// holds what it uses, and waits for the end if it asks again.
bool unloaded = false;

struct Unload {
  ~Unload() {
    std::unique_lock<std::mutex> lock(mutex, std::try_to_lock);
    if (!lock) return;
    unloaded = true;
    // Not those on a GPU: where the process exits, its driver may have gone before.
    Drop(&weights);
    Drop(&stored);
  }
} unload;

// A view of what is stored, which it keeps.
TVMFFIObjectHandle ViewStored(DLTensor tensor) {
  int64_t strides[16], stride = 1;
  for (int32_t axis = tensor.ndim; axis-- > 0; stride *= tensor.shape[axis]) strides[axis] = stride;
  tensor.strides = strides;
  TVMFFIObjectHandle view = nullptr;
  return TVMFFITensorCreateUnsafeView(stored, &tensor, &view) == 0 ? view : nullptr;
}

TVMFFIObjectHandle NewWeight(stitch::Weight* weight) {
  DLDataType dtype = {weight->dtype_code, weight->dtype_bits, weight->dtype_lanes};
  int64_t* shape = weight->shape;
  if (weight->kernel >= 0) {
    return stitch::NewTensor(shape, weight->ndim, dtype, nullptr, Bytes(*weight));
  }
  void* data = reinterpret_cast<void*>(base + weight->address);
  return stored ? ViewStored({data, {kDLCPU, 0}, weight->ndim, dtype, shape, nullptr, 0})
                : stitch::NewTensor(shape, weight->ndim, dtype, data, 0);
}

int MakeTensor(stitch::Weight* weight, TVMFFIAny* out) {
  TVMFFIObjectHandle tensor = NewWeight(weight);
  if (tensor == nullptr) return stitch::Fail("no memory for the model's weights");
  out->type_index = kTVMFFITensor;
  out->v_obj = static_cast<TVMFFIObject*>(tensor);
  return 0;
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
  if (kernel == nullptr) {
    return stitch::Fail("the model's code has no function for a prepared weight");
  }
  TVMFFIAny arguments[] = {source, made};
  TVMFFIAny result{};
  return kernel(nullptr, arguments, 2, &result);
}

int CallGlobal(const char* name, TVMFFIAny* args, size_t count, TVMFFIAny* result) {
  TVMFFIByteArray text = {name, strlen(name)};
  TVMFFIObjectHandle function = nullptr;
  if (TVMFFIFunctionGetGlobal(&text, &function) != 0) return -1;
  if (function == nullptr) return stitch::Fail("TVM's runtime lacks a function");
  int failed = TVMFFIFunctionCall(function, args, static_cast<int32_t>(count), result);
  TVMFFIObjectDecRef(function);
  return failed;
}

// Lets go of the tensors, whether or not they could be made.
int ToArray(int failed, std::vector<TVMFFIAny>* tensors, TVMFFIObjectHandle* made) {
  TVMFFIAny array{};
  if (!failed) failed = CallGlobal("ffi.Array", tensors->data(), tensors->size(), &array);
  for (TVMFFIAny& tensor : *tensors) {
    if (tensor.v_obj) TVMFFIObjectDecRef(tensor.v_obj);
  }
  if (!failed) *made = array.v_obj;
  return failed;
}

int MakeArray() {
  std::vector<TVMFFIAny> tensors(table.size());
  int failed = 0;
  for (size_t i = 0; i < table.size() && !failed; ++i) {
    failed = MakeTensor(&table[i], &tensors[i]);
    if (failed || table[i].kernel < 0) continue;
    failed = Prepare(table[i], tensors[table[i].source], tensors[i]);
  }
  return ToArray(failed, &tensors, &weights);
}

int MakeDeviceArray() {
  if (weights == nullptr && MakeArray() != 0) return -1;
  std::vector<TVMFFIAny> tensors(table.size());
  int failed = 0;
  for (size_t i = 0; i < table.size() && !failed; ++i) {
    TVMFFIAny arguments[3] = {}, number{}, host{};
    arguments[0].type_index = kTVMFFIArray;
    arguments[0].v_obj = static_cast<TVMFFIObject*>(weights);
    number.type_index = kTVMFFIInt;
    number.v_int64 = static_cast<int64_t>(i);
    arguments[1] = number;
    failed = CallGlobal("ffi.ArrayGetItem", arguments, 2, &host);
    if (failed) break;
    arguments[0] = host;
    arguments[1].v_int64 = kDLCUDA;
    arguments[2].type_index = kTVMFFIInt;
    failed = CallGlobal("vm.builtin.to_device", arguments, 3, &tensors[i]);
    TVMFFIObjectDecRef(host.v_obj);
  }
  return ToArray(failed, &tensors, &device_weights);
}

int Give(TVMFFIObjectHandle array, TVMFFIAny* result) {
  TVMFFIObjectIncRef(array);
  result->type_index = kTVMFFIArray;
  result->zero_padding = 0;
  result->v_obj = static_cast<TVMFFIObject*>(array);
  return 0;
}

// Asked for while the process ends: whoever does so ends with it.
int Fetch(int (*make)(), TVMFFIObjectHandle* array, TVMFFIAny* result) {
  std::unique_lock<std::mutex> lock(mutex);
  if (unloaded) {
    lock.unlock();
    while (true) pause();
  }
  if (table.empty()) return stitch::Fail("the model's weights are gone from the end of its file");
  if (*array == nullptr && make() != 0) return -1;
  return Give(*array, result);
}

}  // namespace

extern "C" {

// (bundle: int, bytes: int) -> None. The memory the bundle's addresses name stays the caller's.
int __tvm_ffi_tvm_stitch_bind(void*, const TVMFFIAny* args, int32_t count, TVMFFIAny*) {
  std::lock_guard<std::mutex> lock(mutex);
  if (count != 2) return stitch::Fail("tvm_stitch_bind takes an address and a size");
  if (own_file_read) return stitch::Fail("this library already has its weights");
  auto* bundle = reinterpret_cast<const char*>(args[0].v_int64);
  if (!Read(bundle, args[1].v_int64, UINT64_MAX)) {
    return stitch::Fail("tvm_stitch_bind was given no bundle");
  }
  return 0;
}

// (threads: int) -> int: how many run each kernel from now on; returns how many did.
int __tvm_ffi_tvm_stitch_threads(void*, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  if (count != 1 || args[0].v_int64 < 1) {
    return stitch::Fail("tvm_stitch_threads takes a positive number");
  }
  result->type_index = kTVMFFIInt;
  result->zero_padding = 0;
  result->v_int64 = stitch::threads.exchange(static_cast<int>(args[0].v_int64));
  return 0;
}

// () -> str: what the model is, as JSON.
int __tvm_ffi_tvm_stitch_meta(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  std::lock_guard<std::mutex> lock(mutex);
  if (json.empty()) return stitch::Fail("the model's metadata is gone from the end of its file");
  TVMFFIByteArray text = {json.data(), json.size()};
  return TVMFFIStringFromByteArray(&text, result);
}

// () -> Array of tensors: the model's weights.
int __tvm_ffi_tvm_stitch_weights(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  return Fetch(MakeArray, &weights, result);
}

// () -> Array of tensors: the same in the memory of the first GPU.
int __tvm_ffi_tvm_stitch_device_weights(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  return Fetch(MakeDeviceArray, &device_weights, result);
}

// () -> None: give back the memory of prepared weights, until weights are asked for again.
int __tvm_ffi_tvm_stitch_release(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  std::lock_guard<std::mutex> lock(mutex);
  Drop(&device_weights);
  Drop(&weights);
  return 0;
}

}  // extern "C"
