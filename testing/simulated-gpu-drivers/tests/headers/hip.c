/* The prototypes of the simulated functions of HIP, in the words of the vendor's header, held
 * against that header.
 *
 *    Compiled by `headers.rs`, which also holds these lines against the Rust functions. Nothing
 *    here runs. */

#include <stddef.h>

#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>

#define SAME(name, result, parameters) \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), result(*) parameters), #name);

/* hip/device.rs */
SAME(hipInit, hipError_t, (unsigned int))
SAME(hipDriverGetVersion, hipError_t, (int *))
SAME(hipRuntimeGetVersion, hipError_t, (int *))
SAME(hipGetDeviceCount, hipError_t, (int *))
SAME(hipGetDevice, hipError_t, (int *))
SAME(hipSetDevice, hipError_t, (int))
SAME(hipDeviceGetName, hipError_t, (char *, int, hipDevice_t))
SAME(hipDeviceGetUuid, hipError_t, (hipUUID *, hipDevice_t))
SAME(hipDeviceGetPCIBusId, hipError_t, (char *, int, int))
SAME(hipDeviceGetAttribute, hipError_t, (int *, hipDeviceAttribute_t, int))
SAME(hipDeviceTotalMem, hipError_t, (size_t *, hipDevice_t))
SAME(hipDeviceSynchronize, hipError_t, (void))
SAME(hipDeviceReset, hipError_t, (void))
SAME(hipDeviceCanAccessPeer, hipError_t, (int *, int, int))
SAME(hipDeviceEnablePeerAccess, hipError_t, (int, unsigned int))
SAME(hipGetErrorName, const char *, (hipError_t))
SAME(hipGetErrorString, const char *, (hipError_t))
SAME(hipGetLastError, hipError_t, (void))
SAME(hipPeekAtLastError, hipError_t, (void))

/* hip/memory.rs */
SAME(hipMemGetInfo, hipError_t, (size_t *, size_t *))
SAME(hipMalloc, hipError_t, (void **, size_t))
SAME(hipFree, hipError_t, (void *))
SAME(hipHostMalloc, hipError_t, (void **, size_t, unsigned int))
SAME(hipHostFree, hipError_t, (void *))
SAME(hipMallocManaged, hipError_t, (void **, size_t, unsigned int))
SAME(hipMallocAsync, hipError_t, (void **, size_t, hipStream_t))
SAME(hipFreeAsync, hipError_t, (void *, hipStream_t))

/* hip/mapped.rs */
SAME(hipMemGetAllocationGranularity, hipError_t, (size_t *, const hipMemAllocationProp *, hipMemAllocationGranularity_flags))
SAME(hipMemCreate, hipError_t, (hipMemGenericAllocationHandle_t *, size_t, const hipMemAllocationProp *, unsigned long long))
SAME(hipMemRelease, hipError_t, (hipMemGenericAllocationHandle_t))
SAME(hipMemAddressReserve, hipError_t, (void **, size_t, size_t, void *, unsigned long long))
SAME(hipMemAddressFree, hipError_t, (void *, size_t))
SAME(hipMemMap, hipError_t, (void *, size_t, size_t, hipMemGenericAllocationHandle_t, unsigned long long))
SAME(hipMemUnmap, hipError_t, (void *, size_t))
SAME(hipMemSetAccess, hipError_t, (void *, size_t, const hipMemAccessDesc *, size_t))
SAME(hipMemExportToShareableHandle, hipError_t, (void *, hipMemGenericAllocationHandle_t, hipMemAllocationHandleType, unsigned long long))
SAME(hipMemImportFromShareableHandle, hipError_t, (hipMemGenericAllocationHandle_t *, void *, hipMemAllocationHandleType))

/* hip/pool.rs */
SAME(hipDeviceGetDefaultMemPool, hipError_t, (hipMemPool_t *, int))
SAME(hipDeviceGetMemPool, hipError_t, (hipMemPool_t *, int))
SAME(hipDeviceSetMemPool, hipError_t, (int, hipMemPool_t))
SAME(hipMemPoolCreate, hipError_t, (hipMemPool_t *, const hipMemPoolProps *))
SAME(hipMemPoolDestroy, hipError_t, (hipMemPool_t))
SAME(hipMemPoolSetAttribute, hipError_t, (hipMemPool_t, hipMemPoolAttr, void *))
SAME(hipMemPoolGetAttribute, hipError_t, (hipMemPool_t, hipMemPoolAttr, void *))
SAME(hipMemPoolTrimTo, hipError_t, (hipMemPool_t, size_t))
SAME(hipMemPoolSetAccess, hipError_t, (hipMemPool_t, const hipMemAccessDesc *, size_t))
SAME(hipMallocFromPoolAsync, hipError_t, (void **, size_t, hipMemPool_t, hipStream_t))

/* hip/transfer.rs */
SAME(hipMemcpyAsync, hipError_t, (void *, const void *, size_t, hipMemcpyKind, hipStream_t))
SAME(hipMemcpyHtoDAsync, hipError_t, (hipDeviceptr_t, void *, size_t, hipStream_t))
SAME(hipMemcpyDtoHAsync, hipError_t, (void *, hipDeviceptr_t, size_t, hipStream_t))
SAME(hipMemcpyDtoDAsync, hipError_t, (hipDeviceptr_t, hipDeviceptr_t, size_t, hipStream_t))
SAME(hipMemcpyPeerAsync, hipError_t, (void *, int, const void *, int, size_t, hipStream_t))
SAME(hipMemsetAsync, hipError_t, (void *, int, size_t, hipStream_t))
SAME(hipLaunchHostFunc, hipError_t, (hipStream_t, hipHostFn_t, void *))

/* hip/stream.rs */
SAME(hipStreamCreateWithFlags, hipError_t, (hipStream_t *, unsigned int))
SAME(hipStreamDestroy, hipError_t, (hipStream_t))
SAME(hipStreamQuery, hipError_t, (hipStream_t))
SAME(hipStreamSynchronize, hipError_t, (hipStream_t))
SAME(hipStreamWaitEvent, hipError_t, (hipStream_t, hipEvent_t, unsigned int))
SAME(hipEventCreateWithFlags, hipError_t, (hipEvent_t *, unsigned int))
SAME(hipEventDestroy, hipError_t, (hipEvent_t))
SAME(hipEventRecord, hipError_t, (hipEvent_t, hipStream_t))
SAME(hipEventQuery, hipError_t, (hipEvent_t))
SAME(hipEventSynchronize, hipError_t, (hipEvent_t))
SAME(hipStreamBeginCapture, hipError_t, (hipStream_t, hipStreamCaptureMode))
SAME(hipStreamEndCapture, hipError_t, (hipStream_t, hipGraph_t *))
SAME(hipStreamIsCapturing, hipError_t, (hipStream_t, hipStreamCaptureStatus *))
SAME(hipThreadExchangeStreamCaptureMode, hipError_t, (hipStreamCaptureMode *))

/* hip/graph.rs */
SAME(hipGraphInstantiate, hipError_t, (hipGraphExec_t *, hipGraph_t, hipGraphNode_t *, char *, size_t))
SAME(hipGraphLaunch, hipError_t, (hipGraphExec_t, hipStream_t))
SAME(hipGraphExecDestroy, hipError_t, (hipGraphExec_t))
SAME(hipGraphDestroy, hipError_t, (hipGraph_t))

/* hip/pointer.rs */
SAME(hipPointerGetAttribute, hipError_t, (void *, hipPointer_attribute, hipDeviceptr_t))
SAME(hipPointerGetAttributes, hipError_t, (hipPointerAttribute_t *, const void *))
SAME(hipMemGetAddressRange, hipError_t, (hipDeviceptr_t *, size_t *, hipDeviceptr_t))
SAME(hipHostGetDevicePointer, hipError_t, (void **, void *, unsigned int))

/* The types that the Rust functions have other names for. */
_Static_assert(sizeof(hipDeviceptr_t) == 8 && sizeof(size_t) == 8 && sizeof(hipStream_t) == 8, "words");
_Static_assert(sizeof(hipError_t) == 4 && sizeof(hipDevice_t) == 4 && sizeof(hipMemcpyKind) == 4, "ints");
_Static_assert(sizeof(hipDeviceAttribute_t) == 4 && sizeof(hipPointer_attribute) == 4, "ints");
_Static_assert(sizeof(hipStreamCaptureMode) == 4 && sizeof(hipStreamCaptureStatus) == 4, "ints");

_Static_assert(sizeof(hipMemAllocationHandleType) == 4 && sizeof(hipMemAllocationGranularity_flags) == 4, "ints");
_Static_assert(sizeof(hipMemGenericAllocationHandle_t) == 8 && sizeof(hipUUID) == 16, "handles and bytes");

/* Structs. */
#if HIP_VERSION_MAJOR >= 6
_Static_assert(sizeof(hipMemAllocationProp) == 32, "hipMemAllocationProp");
_Static_assert(offsetof(hipMemAllocationProp, type) == 0 && offsetof(hipMemAllocationProp, location) == 8, "memory");
_Static_assert(offsetof(hipMemAllocationProp, win32HandleMetaData) == 16, "security");
_Static_assert(offsetof(hipMemAllocationProp, allocFlags) == 24, "flags");
_Static_assert(hipDeviceAttributeVirtualMemoryManagementSupported == 89, "attributes");
#endif
_Static_assert(hipMemHandleTypePosixFileDescriptor == 1 && hipMemAllocationGranularityMinimum == 0, "allocations");
_Static_assert(hipMemAccessFlagsProtRead == 1 && hipMemAccessFlagsProtReadWrite == 3, "rights");
_Static_assert(sizeof(hipPointerAttribute_t) == 32, "hipPointerAttribute_t");
_Static_assert(offsetof(hipPointerAttribute_t, device) == 4, "device");
_Static_assert(offsetof(hipPointerAttribute_t, devicePointer) == 8, "device_address");
_Static_assert(offsetof(hipPointerAttribute_t, hostPointer) == 16, "host_address");
_Static_assert(offsetof(hipPointerAttribute_t, isManaged) == 24, "is_managed");
_Static_assert(offsetof(hipPointerAttribute_t, allocationFlags) == 28, "flags");
_Static_assert(sizeof(hipMemAccessDesc) == 12 && offsetof(hipMemAccessDesc, flags) == 8, "hipMemAccessDesc");

/* Numbers. */
_Static_assert(hipStreamNonBlocking == 1 && hipStreamPerThread == (hipStream_t)2, "streams");
_Static_assert(hipEventBlockingSync == 1 && hipEventDisableTiming == 2 && hipEventInterprocess == 4, "flags of events");
_Static_assert(hipEventReleaseToDevice == 0x40000000 && hipEventReleaseToSystem == 0x80000000, "flags of events");
_Static_assert(hipHostMallocPortable == 1 && hipHostMallocMapped == 2 && hipHostMallocWriteCombined == 4, "flags");
_Static_assert(hipHostMallocNumaUser == 0x20000000 && hipHostMallocNonCoherent == 0x80000000, "flags");
_Static_assert(hipMemAttachGlobal == 1 && hipMemAttachHost == 2, "flags of managed memory");
_Static_assert(hipDeviceAttributeCanMapHostMemory == 3 && hipDeviceAttributeConcurrentManagedAccess == 9, "attributes");
_Static_assert(sizeof(hipMemPoolProps) == 88, "hipMemPoolProps");
_Static_assert(offsetof(hipMemPoolProps, location.type) == 8 && offsetof(hipMemPoolProps, location.id) == 12, "place");
_Static_assert(offsetof(hipMemPoolProps, win32SecurityAttributes) == 16, "security");
_Static_assert(hipMemAllocationTypePinned == 1 && hipMemLocationTypeDevice == 1, "pools");
_Static_assert(hipMemPoolAttrReleaseThreshold == 4 && hipMemPoolAttrReservedMemCurrent == 5, "pools");
_Static_assert(hipMemPoolAttrUsedMemCurrent == 7, "pools");
_Static_assert(hipDeviceAttributeManagedMemory == 24 && hipDeviceAttributeMemoryPoolsSupported == 88, "attributes");
_Static_assert(hipDeviceAttributeUnifiedAddressing == 85 && hipDeviceAttributePciDeviceId == 68, "attributes");
_Static_assert(hipMemcpyHostToHost == 0 && hipMemcpyHostToDevice == 1 && hipMemcpyDeviceToHost == 2, "directions");
_Static_assert(hipMemcpyDeviceToDevice == 3 && hipMemcpyDefault == 4, "directions");
_Static_assert(HIP_POINTER_ATTRIBUTE_CONTEXT == 1 && HIP_POINTER_ATTRIBUTE_MEMORY_TYPE == 2, "attributes of pointers");
_Static_assert(HIP_POINTER_ATTRIBUTE_IS_MANAGED == 8 && HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL == 9, "attributes of pointers");
_Static_assert(HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR == 11 && HIP_POINTER_ATTRIBUTE_RANGE_SIZE == 12, "attributes");
_Static_assert(HIP_POINTER_ATTRIBUTE_MAPPED == 13, "attributes of pointers");
_Static_assert(hipStreamCaptureModeGlobal == 0 && hipStreamCaptureModeRelaxed == 2, "modes of capture");
_Static_assert(hipStreamCaptureStatusActive == 1 && hipStreamCaptureStatusInvalidated == 2, "states of capture");
#if HIP_VERSION_MAJOR < 6
_Static_assert(hipMemoryTypeHost == 0 && hipMemoryTypeDevice == 1, "kinds");
#else
_Static_assert(hipMemoryTypeHost == 1 && hipMemoryTypeDevice == 2 && hipMemoryTypeManaged == 3, "kinds");
#endif

/* Codes. */
_Static_assert(hipSuccess == 0, "hipSuccess");
_Static_assert(hipErrorInvalidValue == 1, "hipErrorInvalidValue");
_Static_assert(hipErrorOutOfMemory == 2, "hipErrorOutOfMemory");
_Static_assert(hipErrorNotInitialized == 3, "hipErrorNotInitialized");
_Static_assert(hipErrorDeinitialized == 4, "hipErrorDeinitialized");
_Static_assert(hipErrorInvalidMemcpyDirection == 21, "hipErrorInvalidMemcpyDirection");
_Static_assert(hipErrorNoDevice == 100, "hipErrorNoDevice");
_Static_assert(hipErrorInvalidHandle == 400, "hipErrorInvalidHandle");
_Static_assert(hipErrorNotFound == 500, "hipErrorNotFound");
_Static_assert(hipErrorNotReady == 600, "hipErrorNotReady");
_Static_assert(hipErrorLaunchFailure == 719, "hipErrorLaunchFailure");
_Static_assert(hipErrorUnknown == 999, "hipErrorUnknown");
