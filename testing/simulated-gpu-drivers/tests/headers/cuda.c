/* The prototypes of the simulated functions of CUDA, in the words of the vendor's header, held
 * against that header.
 *
 *    Compiled by `headers.rs`, which also holds these lines against the Rust functions. Nothing
 *    here runs. */

#include <stddef.h>

#include <cuda.h>

#define SAME(name, result, parameters) \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), result(*) parameters), #name);

/* cuda/device.rs */
SAME(cuInit, CUresult, (unsigned int))
SAME(cuDriverGetVersion, CUresult, (int *))
SAME(cuDeviceGetCount, CUresult, (int *))
SAME(cuDeviceGet, CUresult, (CUdevice *, int))
SAME(cuDeviceGetName, CUresult, (char *, int, CUdevice))
SAME(cuDeviceGetUuid_v2, CUresult, (CUuuid *, CUdevice))
SAME(cuDeviceGetPCIBusId, CUresult, (char *, int, CUdevice))
SAME(cuDeviceGetAttribute, CUresult, (int *, CUdevice_attribute, CUdevice))
SAME(cuDeviceTotalMem_v2, CUresult, (size_t *, CUdevice))
SAME(cuDeviceCanAccessPeer, CUresult, (int *, CUdevice, CUdevice))
SAME(cuGetErrorName, CUresult, (CUresult, const char **))
SAME(cuGetErrorString, CUresult, (CUresult, const char **))

/* cuda/context.rs */
SAME(cuDevicePrimaryCtxRetain, CUresult, (CUcontext *, CUdevice))
SAME(cuDevicePrimaryCtxRelease_v2, CUresult, (CUdevice))
SAME(cuDevicePrimaryCtxReset_v2, CUresult, (CUdevice))
SAME(cuDevicePrimaryCtxGetState, CUresult, (CUdevice, unsigned int *, int *))
SAME(cuCtxGetCurrent, CUresult, (CUcontext *))
SAME(cuCtxSetCurrent, CUresult, (CUcontext))
SAME(cuCtxPushCurrent_v2, CUresult, (CUcontext))
SAME(cuCtxPopCurrent_v2, CUresult, (CUcontext *))
SAME(cuCtxGetDevice, CUresult, (CUdevice *))
SAME(cuCtxSynchronize, CUresult, (void))
SAME(cuCtxEnablePeerAccess, CUresult, (CUcontext, unsigned int))
#if CUDA_VERSION < 13000
SAME(cuCtxCreate_v2, CUresult, (CUcontext *, unsigned int, CUdevice))
#endif
SAME(cuCtxCreate_v4, CUresult, (CUcontext *, CUctxCreateParams *, unsigned int, CUdevice))
SAME(cuCtxDestroy_v2, CUresult, (CUcontext))

/* cuda/memory.rs */
SAME(cuMemGetInfo_v2, CUresult, (size_t *, size_t *))
SAME(cuMemAlloc_v2, CUresult, (CUdeviceptr *, size_t))
SAME(cuMemFree_v2, CUresult, (CUdeviceptr))
SAME(cuMemHostAlloc, CUresult, (void **, size_t, unsigned int))
SAME(cuMemAllocHost_v2, CUresult, (void **, size_t))
SAME(cuMemFreeHost, CUresult, (void *))
SAME(cuMemAllocManaged, CUresult, (CUdeviceptr *, size_t, unsigned int))
SAME(cuMemAllocAsync, CUresult, (CUdeviceptr *, size_t, CUstream))
SAME(cuMemFreeAsync, CUresult, (CUdeviceptr, CUstream))

/* cuda/mapped.rs */
SAME(cuMemGetAllocationGranularity, CUresult, (size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags))
SAME(cuMemCreate, CUresult, (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long))
SAME(cuMemRelease, CUresult, (CUmemGenericAllocationHandle))
SAME(cuMemAddressReserve, CUresult, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long))
SAME(cuMemAddressFree, CUresult, (CUdeviceptr, size_t))
SAME(cuMemMap, CUresult, (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long))
SAME(cuMemUnmap, CUresult, (CUdeviceptr, size_t))
SAME(cuMemSetAccess, CUresult, (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t))
SAME(cuMemExportToShareableHandle, CUresult, (void *, CUmemGenericAllocationHandle, CUmemAllocationHandleType, unsigned long long))
SAME(cuMemImportFromShareableHandle, CUresult, (CUmemGenericAllocationHandle *, void *, CUmemAllocationHandleType))

/* cuda/pool.rs */
SAME(cuDeviceGetDefaultMemPool, CUresult, (CUmemoryPool *, CUdevice))
SAME(cuDeviceGetMemPool, CUresult, (CUmemoryPool *, CUdevice))
SAME(cuDeviceSetMemPool, CUresult, (CUdevice, CUmemoryPool))
SAME(cuMemPoolCreate, CUresult, (CUmemoryPool *, const CUmemPoolProps *))
SAME(cuMemPoolDestroy, CUresult, (CUmemoryPool))
SAME(cuMemPoolSetAttribute, CUresult, (CUmemoryPool, CUmemPool_attribute, void *))
SAME(cuMemPoolGetAttribute, CUresult, (CUmemoryPool, CUmemPool_attribute, void *))
SAME(cuMemPoolTrimTo, CUresult, (CUmemoryPool, size_t))
SAME(cuMemPoolSetAccess, CUresult, (CUmemoryPool, const CUmemAccessDesc *, size_t))
SAME(cuMemAllocFromPoolAsync, CUresult, (CUdeviceptr *, size_t, CUmemoryPool, CUstream))

/* cuda/transfer.rs */
SAME(cuMemcpyAsync, CUresult, (CUdeviceptr, CUdeviceptr, size_t, CUstream))
SAME(cuMemcpyHtoDAsync_v2, CUresult, (CUdeviceptr, const void *, size_t, CUstream))
SAME(cuMemcpyDtoHAsync_v2, CUresult, (void *, CUdeviceptr, size_t, CUstream))
SAME(cuMemcpyDtoDAsync_v2, CUresult, (CUdeviceptr, CUdeviceptr, size_t, CUstream))
SAME(cuMemcpyPeerAsync, CUresult, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream))
#if CUDA_VERSION >= 13000
SAME(cuMemcpyBatchAsync_v2, CUresult, (CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, CUstream))
#else
SAME(cuMemcpyBatchAsync, CUresult, (CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, size_t *, CUstream))
#endif
SAME(cuMemsetD8Async, CUresult, (CUdeviceptr, unsigned char, size_t, CUstream))
SAME(cuMemsetD32Async, CUresult, (CUdeviceptr, unsigned int, size_t, CUstream))
SAME(cuLaunchHostFunc, CUresult, (CUstream, CUhostFn, void *))

/* cuda/stream.rs */
SAME(cuStreamCreate, CUresult, (CUstream *, unsigned int))
SAME(cuStreamDestroy_v2, CUresult, (CUstream))
SAME(cuStreamQuery, CUresult, (CUstream))
SAME(cuStreamSynchronize, CUresult, (CUstream))
SAME(cuStreamWaitEvent, CUresult, (CUstream, CUevent, unsigned int))
SAME(cuStreamGetCtx, CUresult, (CUstream, CUcontext *))
SAME(cuStreamGetDevice, CUresult, (CUstream, CUdevice *))
SAME(cuEventCreate, CUresult, (CUevent *, unsigned int))
SAME(cuEventDestroy_v2, CUresult, (CUevent))
SAME(cuEventRecord, CUresult, (CUevent, CUstream))
SAME(cuEventQuery, CUresult, (CUevent))
SAME(cuEventSynchronize, CUresult, (CUevent))
SAME(cuStreamBeginCapture_v2, CUresult, (CUstream, CUstreamCaptureMode))
SAME(cuStreamEndCapture, CUresult, (CUstream, CUgraph *))
SAME(cuStreamIsCapturing, CUresult, (CUstream, CUstreamCaptureStatus *))
#if CUDA_VERSION < 13000
SAME(cuStreamGetCaptureInfo_v2, CUresult, (CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *, const CUgraphNode **, size_t *))
#endif
SAME(cuThreadExchangeStreamCaptureMode, CUresult, (CUstreamCaptureMode *))

/* cuda/graph.rs */
SAME(cuGraphInstantiateWithFlags, CUresult, (CUgraphExec *, CUgraph, unsigned long long))
SAME(cuGraphLaunch, CUresult, (CUgraphExec, CUstream))
SAME(cuGraphExecDestroy, CUresult, (CUgraphExec))
SAME(cuGraphDestroy, CUresult, (CUgraph))

/* cuda/pointer.rs */
SAME(cuPointerGetAttribute, CUresult, (void *, CUpointer_attribute, CUdeviceptr))
SAME(cuPointerGetAttributes, CUresult, (unsigned int, CUpointer_attribute *, void **, CUdeviceptr))
SAME(cuMemGetAddressRange_v2, CUresult, (CUdeviceptr *, size_t *, CUdeviceptr))
SAME(cuMemHostGetDevicePointer_v2, CUresult, (CUdeviceptr *, void *, unsigned int))

/* cuda/module.rs */
SAME(cuModuleLoadData, CUresult, (CUmodule *, const void *))
SAME(cuModuleGetFunction, CUresult, (CUfunction *, CUmodule, const char *))
SAME(cuModuleUnload, CUresult, (CUmodule))
SAME(cuLaunchKernel, CUresult, (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, CUstream, void **, void **))

/* The types that the Rust functions have other names for. */
_Static_assert(sizeof(CUdeviceptr) == 8 && sizeof(size_t) == 8 && sizeof(cuuint64_t) == 8, "words");
_Static_assert(sizeof(CUstream) == 8 && sizeof(CUcontext) == 8 && sizeof(CUhostFn) == 8, "pointers");
_Static_assert(sizeof(CUdevice) == 4 && sizeof(CUresult) == 4 && sizeof(CUdevice_attribute) == 4, "ints");
_Static_assert(sizeof(CUpointer_attribute) == 4 && sizeof(CUstreamCaptureMode) == 4, "ints");
_Static_assert(sizeof(CUstreamCaptureStatus) == 4 && sizeof(CUuuid) == 16, "ints and bytes");

/* Structs. */
_Static_assert(sizeof(CUmemcpyAttributes) == 24, "CUmemcpyAttributes");
_Static_assert(offsetof(CUmemcpyAttributes, srcAccessOrder) == 0, "source_order");
_Static_assert(offsetof(CUmemcpyAttributes, srcLocHint) == 4, "hints");
_Static_assert(offsetof(CUmemcpyAttributes, flags) == 20, "flags");
_Static_assert(sizeof(CUmemAccessDesc) == 12, "CUmemAccessDesc");
_Static_assert(offsetof(CUmemAccessDesc, location.type) == 0 && offsetof(CUmemAccessDesc, location.id) == 4, "place");
_Static_assert(offsetof(CUmemAccessDesc, flags) == 8, "rights");

_Static_assert(sizeof(CUmemAllocationProp) == 32 && sizeof(CUmemGenericAllocationHandle) == 8, "allocations");
_Static_assert(offsetof(CUmemAllocationProp, type) == 0 && offsetof(CUmemAllocationProp, requestedHandleTypes) == 4, "memory");
_Static_assert(offsetof(CUmemAllocationProp, location.type) == 8 && offsetof(CUmemAllocationProp, location.id) == 12, "place");
_Static_assert(offsetof(CUmemAllocationProp, win32HandleMetaData) == 16, "security");
_Static_assert(offsetof(CUmemAllocationProp, allocFlags) == 24, "flags");
_Static_assert(sizeof(CUmemAllocationHandleType) == 4 && sizeof(CUmemAllocationGranularity_flags) == 4, "ints");

_Static_assert(sizeof(CUmemPoolProps) == 88, "CUmemPoolProps");
_Static_assert(offsetof(CUmemPoolProps, allocType) == 0 && offsetof(CUmemPoolProps, handleTypes) == 4, "memory");
_Static_assert(offsetof(CUmemPoolProps, location.type) == 8 && offsetof(CUmemPoolProps, location.id) == 12, "place");
_Static_assert(offsetof(CUmemPoolProps, win32SecurityAttributes) == 16, "security");

/* Numbers. */
_Static_assert(CU_MEM_ALLOCATION_TYPE_PINNED == 1 && CU_MEM_LOCATION_TYPE_DEVICE == 1, "pools");
_Static_assert(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD == 4 && CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT == 5, "pools");
_Static_assert(CU_MEMPOOL_ATTR_USED_MEM_CURRENT == 7, "pools");
_Static_assert(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR == 1 && CU_MEM_ALLOC_GRANULARITY_MINIMUM == 0, "allocations");
_Static_assert(CU_MEM_ACCESS_FLAGS_PROT_READ == 1 && CU_MEM_ACCESS_FLAGS_PROT_READWRITE == 3, "rights");
_Static_assert(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED == 102, "attributes");
_Static_assert(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED == 103, "attributes");
_Static_assert(CU_STREAM_NON_BLOCKING == 1, "flags of streams");
_Static_assert(CU_STREAM_LEGACY == (CUstream)1 && CU_STREAM_PER_THREAD == (CUstream)2, "default streams");
_Static_assert(CU_EVENT_BLOCKING_SYNC == 1 && CU_EVENT_DISABLE_TIMING == 2 && CU_EVENT_INTERPROCESS == 4, "flags of events");
_Static_assert(CU_MEMHOSTALLOC_PORTABLE == 1 && CU_MEMHOSTALLOC_DEVICEMAP == 2 && CU_MEMHOSTALLOC_WRITECOMBINED == 4, "flags");
_Static_assert(CU_MEM_ATTACH_GLOBAL == 1 && CU_MEM_ATTACH_HOST == 2, "flags of managed memory");
_Static_assert(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY == 83 && CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS == 89, "attributes");
_Static_assert(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED == 115 && CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING == 41, "attributes");
_Static_assert(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID == 34 && CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR == 75, "attributes");
_Static_assert(CU_POINTER_ATTRIBUTE_CONTEXT == 1 && CU_POINTER_ATTRIBUTE_MEMORY_TYPE == 2, "attributes of pointers");
_Static_assert(CU_POINTER_ATTRIBUTE_IS_MANAGED == 8 && CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL == 9, "attributes of pointers");
_Static_assert(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR == 11 && CU_POINTER_ATTRIBUTE_RANGE_SIZE == 12, "attributes of pointers");
_Static_assert(CU_POINTER_ATTRIBUTE_MAPPED == 13 && CU_MEMORYTYPE_HOST == 1 && CU_MEMORYTYPE_DEVICE == 2, "kinds");
_Static_assert(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM == 1 && CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL == 2, "orders");
_Static_assert(CU_MEMCPY_SRC_ACCESS_ORDER_ANY == 3, "orders");
_Static_assert(CU_STREAM_CAPTURE_MODE_GLOBAL == 0 && CU_STREAM_CAPTURE_MODE_RELAXED == 2, "modes of capture");
_Static_assert(CU_STREAM_CAPTURE_STATUS_ACTIVE == 1 && CU_STREAM_CAPTURE_STATUS_INVALIDATED == 2, "states of capture");

/* Codes. */
_Static_assert(CUDA_SUCCESS == 0, "CUDA_SUCCESS");
_Static_assert(CUDA_ERROR_INVALID_VALUE == 1, "CUDA_ERROR_INVALID_VALUE");
_Static_assert(CUDA_ERROR_OUT_OF_MEMORY == 2, "CUDA_ERROR_OUT_OF_MEMORY");
_Static_assert(CUDA_ERROR_NOT_INITIALIZED == 3, "CUDA_ERROR_NOT_INITIALIZED");
_Static_assert(CUDA_ERROR_DEINITIALIZED == 4, "CUDA_ERROR_DEINITIALIZED");
_Static_assert(CUDA_ERROR_NO_DEVICE == 100, "CUDA_ERROR_NO_DEVICE");
_Static_assert(CUDA_ERROR_INVALID_HANDLE == 400, "CUDA_ERROR_INVALID_HANDLE");
_Static_assert(CUDA_ERROR_NOT_FOUND == 500, "CUDA_ERROR_NOT_FOUND");
_Static_assert(CUDA_ERROR_NOT_READY == 600, "CUDA_ERROR_NOT_READY");
_Static_assert(CUDA_ERROR_LAUNCH_FAILED == 719, "CUDA_ERROR_LAUNCH_FAILED");
_Static_assert(CUDA_ERROR_NOT_PERMITTED == 800, "CUDA_ERROR_NOT_PERMITTED");
_Static_assert(CUDA_ERROR_UNKNOWN == 999, "CUDA_ERROR_UNKNOWN");
