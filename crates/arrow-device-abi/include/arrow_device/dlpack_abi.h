// Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except
// in compliance with the License. You may obtain a copy of the License at
//
//   http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software distributed under the License
// is distributed on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express
// or implied. See the License for the specific language governing permissions and limitations under
// the License.
//
// The declarations under DLPACK_DLPACK_H_ are those of dlpack.h, the common header of DLPack,
// Copyright (c) 2017 - by Contributors.

// DLPack 1.3, for C11 and C++17.
//
// The names and the guard are those of dlpack.h, so either file can be included first, and the
// other one then declares nothing. At its end, this file asserts that the declarations that are
// used have the right layout. A dlpack.h older than 1.0 has no DLManagedTensorVersioned and is
// refused: include this file before it.

#ifndef ARROW_DEVICE_DLPACK_ABI_H_
#define ARROW_DEVICE_DLPACK_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

#ifdef __cplusplus
#define DLPACK_EXTERN_C extern "C"
#else
#define DLPACK_EXTERN_C
#endif

#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 3

#ifdef _WIN32
#ifdef DLPACK_EXPORTS
#define DLPACK_DLL __declspec(dllexport)
#else
#define DLPACK_DLL __declspec(dllimport)
#endif
#else
#define DLPACK_DLL
#endif

#ifdef __cplusplus
extern "C" {
#endif

// Another major version has another layout: then only the deleter may be used.
typedef struct {
  uint32_t major;
  uint32_t minor;
} DLPackVersion;

#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
  kDLCPU = 1,
  kDLCUDA = 2,
  // Host memory pinned by CUDA.
  kDLCUDAHost = 3,
  kDLOpenCL = 4,
  kDLVulkan = 7,
  kDLMetal = 8,
  // A Verilog simulator.
  kDLVPI = 9,
  kDLROCM = 10,
  // Host memory pinned by ROCm.
  kDLROCMHost = 11,
  // A device outside this list.
  kDLExtDev = 12,
  kDLCUDAManaged = 13,
  kDLOneAPI = 14,
  kDLWebGPU = 15,
  kDLHexagon = 16,
  kDLMAIA = 17,
  // AWS Trainium.
  kDLTrn = 18,
} DLDeviceType;

typedef struct {
  DLDeviceType device_type;
  // 0 for host, pinned and managed memory.
  int32_t device_id;
} DLDevice;

typedef enum {
  kDLInt = 0U,
  kDLUInt = 1U,
  kDLFloat = 2U,
  kDLOpaqueHandle = 3U,
  kDLBfloat = 4U,
  // `bits` counts both parts.
  kDLComplex = 5U,
  // A byte each.
  kDLBool = 6U,
  kDLFloat8_e3m4 = 7U,
  kDLFloat8_e4m3 = 8U,
  kDLFloat8_e4m3b11fnuz = 9U,
  kDLFloat8_e4m3fn = 10U,
  kDLFloat8_e4m3fnuz = 11U,
  kDLFloat8_e5m2 = 12U,
  kDLFloat8_e5m2fnuz = 13U,
  kDLFloat8_e8m0fnu = 14U,
  // A consumer refuses these two unless `bits` is 6, ...
  kDLFloat6_e2m3fn = 15U,
  kDLFloat6_e3m2fn = 16U,
  // ... and this one unless `bits` is 4.
  kDLFloat4_e2m1fn = 17U,
} DLDataTypeCode;

typedef struct {
  // A DLDataTypeCode.
  uint8_t code;
  uint8_t bits;
  // How many values make an element: 1 unless the element is a vector.
  uint16_t lanes;
} DLDataType;

// Owns nothing.
typedef struct {
  // An address or, on some devices, a handle. NULL if the tensor has no element.
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  // `ndim` lengths. May be NULL if `ndim` is 0.
  int64_t* shape;
  // `ndim` distances, counted in elements. NULL meant compact row-major order before version 1.2;
  // since then it is only allowed if `ndim` is 0.
  int64_t* strides;
  uint64_t byte_offset;
} DLTensor;

// The form before version 1.0. The producer allocates the struct. The consumer calls the deleter
// once, unless the deleter is NULL.
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
} DLManagedTensor;

// The tensor must not be written to.
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
// The producer copied the data for this consumer, and nobody else has the copy.
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)
// Elements of less than a byte take a byte each and are not packed.
#define DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED (1UL << 2UL)

// The fields up to `flags` keep their place in every major version.
typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;

// The functions of a DLPackExchangeAPI. Each returns 0, or -1 with a Python exception set; the
// first one calls SetError instead. None of them waits for a device.

typedef int (*DLPackManagedTensorAllocator)(
    DLTensor* prototype, DLManagedTensorVersioned** out, void* error_ctx,
    void (*SetError)(void* error_ctx, const char* kind, const char* message));

typedef int (*DLPackManagedTensorFromPyObjectNoSync)(void* py_object, DLManagedTensorVersioned** out);

typedef int (*DLPackDLTensorFromPyObjectNoSync)(void* py_object, DLTensor* out);

typedef int (*DLPackCurrentWorkStream)(DLDeviceType device_type, int32_t device_id, void** out_current_stream);

typedef int (*DLPackManagedTensorToPyObjectNoSync)(DLManagedTensorVersioned* tensor, void** out_py_object);

// Keeps its place in every major version.
typedef struct DLPackExchangeAPIHeader {
  DLPackVersion version;
  // The table of an older major version, or NULL.
  struct DLPackExchangeAPIHeader* prev_api;
} DLPackExchangeAPIHeader;

// A library's table of functions. It lives as long as the process.
typedef struct DLPackExchangeAPI {
  DLPackExchangeAPIHeader header;
  DLPackManagedTensorAllocator managed_tensor_allocator;
  DLPackManagedTensorFromPyObjectNoSync managed_tensor_from_py_object_no_sync;
  DLPackManagedTensorToPyObjectNoSync managed_tensor_to_py_object_no_sync;
  // May be NULL.
  DLPackDLTensorFromPyObjectNoSync dltensor_from_py_object_no_sync;
  DLPackCurrentWorkStream current_work_stream;
} DLPackExchangeAPI;

#ifdef __cplusplus
}
#endif
#endif  // DLPACK_DLPACK_H_

// Whichever copy of the declarations won, it must agree with this.

#if !defined(DLPACK_MAJOR_VERSION) || !defined(DLPACK_MINOR_VERSION)
#  error "A dlpack.h older than 1.0 was included first. Include arrow_device/dlpack_abi.h before it."
#elif DLPACK_MAJOR_VERSION != 1
#  error "A dlpack.h of another major version than 1 was included first."
#endif

#ifdef __cplusplus
#  define ARROW_DEVICE_DLPACK_ASSERT(condition, text) static_assert(condition, text)
#else
#  define ARROW_DEVICE_DLPACK_ASSERT(condition, text) _Static_assert(condition, text)
#endif
#define ARROW_DEVICE_DLPACK_SIZE(type, size) \
  ARROW_DEVICE_DLPACK_ASSERT(sizeof(type) == (size), #type " must have " #size " bytes")
#define ARROW_DEVICE_DLPACK_OFFSET(type, member, offset) \
  ARROW_DEVICE_DLPACK_ASSERT(offsetof(type, member) == (offset), \
                             #type "." #member " must be at " #offset)

ARROW_DEVICE_DLPACK_SIZE(DLPackVersion, 8);
ARROW_DEVICE_DLPACK_SIZE(DLDeviceType, 4);
ARROW_DEVICE_DLPACK_SIZE(DLDevice, 8);
ARROW_DEVICE_DLPACK_OFFSET(DLDevice, device_id, 4);
ARROW_DEVICE_DLPACK_SIZE(DLDataType, 4);
ARROW_DEVICE_DLPACK_OFFSET(DLDataType, bits, 1);
ARROW_DEVICE_DLPACK_OFFSET(DLDataType, lanes, 2);

// The numbers below hold where a pointer has 64 bits.
#if UINTPTR_MAX == 0xffffffffffffffffu

ARROW_DEVICE_DLPACK_SIZE(DLTensor, 48);
ARROW_DEVICE_DLPACK_OFFSET(DLTensor, data, 0);
ARROW_DEVICE_DLPACK_OFFSET(DLTensor, device, 8);
ARROW_DEVICE_DLPACK_OFFSET(DLTensor, ndim, 16);
ARROW_DEVICE_DLPACK_OFFSET(DLTensor, dtype, 20);
ARROW_DEVICE_DLPACK_OFFSET(DLTensor, shape, 24);
ARROW_DEVICE_DLPACK_OFFSET(DLTensor, strides, 32);
ARROW_DEVICE_DLPACK_OFFSET(DLTensor, byte_offset, 40);

ARROW_DEVICE_DLPACK_SIZE(DLManagedTensor, 64);
ARROW_DEVICE_DLPACK_OFFSET(DLManagedTensor, dl_tensor, 0);
ARROW_DEVICE_DLPACK_OFFSET(DLManagedTensor, manager_ctx, 48);
ARROW_DEVICE_DLPACK_OFFSET(DLManagedTensor, deleter, 56);

ARROW_DEVICE_DLPACK_SIZE(DLManagedTensorVersioned, 80);
ARROW_DEVICE_DLPACK_OFFSET(DLManagedTensorVersioned, version, 0);
ARROW_DEVICE_DLPACK_OFFSET(DLManagedTensorVersioned, manager_ctx, 8);
ARROW_DEVICE_DLPACK_OFFSET(DLManagedTensorVersioned, deleter, 16);
ARROW_DEVICE_DLPACK_OFFSET(DLManagedTensorVersioned, flags, 24);
ARROW_DEVICE_DLPACK_OFFSET(DLManagedTensorVersioned, dl_tensor, 32);

// The function table has its final form since 1.3.
#if DLPACK_MINOR_VERSION >= 3

ARROW_DEVICE_DLPACK_SIZE(DLPackExchangeAPIHeader, 16);
ARROW_DEVICE_DLPACK_OFFSET(DLPackExchangeAPIHeader, version, 0);
ARROW_DEVICE_DLPACK_OFFSET(DLPackExchangeAPIHeader, prev_api, 8);

ARROW_DEVICE_DLPACK_OFFSET(DLPackExchangeAPI, header, 0);
ARROW_DEVICE_DLPACK_OFFSET(DLPackExchangeAPI, managed_tensor_allocator, 16);
ARROW_DEVICE_DLPACK_OFFSET(DLPackExchangeAPI, managed_tensor_from_py_object_no_sync, 24);
ARROW_DEVICE_DLPACK_OFFSET(DLPackExchangeAPI, managed_tensor_to_py_object_no_sync, 32);
ARROW_DEVICE_DLPACK_OFFSET(DLPackExchangeAPI, dltensor_from_py_object_no_sync, 40);
ARROW_DEVICE_DLPACK_OFFSET(DLPackExchangeAPI, current_work_stream, 48);

#endif  // DLPACK_MINOR_VERSION >= 3
#endif  // 64-bit pointers

#undef ARROW_DEVICE_DLPACK_OFFSET
#undef ARROW_DEVICE_DLPACK_SIZE
#undef ARROW_DEVICE_DLPACK_ASSERT

#endif  // ARROW_DEVICE_DLPACK_ABI_H_
