// Tensors that are parts of an arena.
#include <dlpack/dlpack.h>
#include <tvm/ffi/c_api.h>

#include <cstdlib>
#include <cstring>

#include "bundle.h"

namespace {

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
  if (placed == nullptr) return stitch::Fail("no memory for a tensor");
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
    return stitch::Fail("tvm_stitch_place takes a tensor, an offset, a shape and a dtype");
  }
  return Place(args[0], args[1].v_int64, *TVMFFIShapeGetCellPtr(args[2].v_obj), dtype, result);
}

}  // extern "C"
