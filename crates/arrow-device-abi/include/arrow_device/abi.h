// Licensed to the Apache Software Foundation (ASF) under one
// or more contributor license agreements.  See the NOTICE file
// distributed with this work for additional information
// regarding copyright ownership.  The ASF licenses this file
// to you under the Apache License, Version 2.0 (the
// "License"); you may not use this file except in compliance
// with the License.  You may obtain a copy of the License at
//
//   http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing,
// software distributed under the License is distributed on an
// "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY
// KIND, either express or implied.  See the License for the
// specific language governing permissions and limitations
// under the License.

// The Arrow C data, stream, device and asynchronous interfaces, for C11 and C++17.
//
// The declarations between the five ARROW_C_*_INTERFACE guards are Arrow's own, unchanged. Any
// project may carry a copy of these declarations, and the copy that is included first is used. So
// this file can be included before or after any other copy. At its end, this file asserts that the
// copy that is used has the right layout: a compile error there means that another header on the
// include path declares these structs wrongly.
//
// Where the specification disagrees with itself, the declarations that Arrow ships are taken:
//   - struct ArrowAsyncProducer has no member `release`, though the specification's code block
//     shows one.
//   - its `request` takes an int64_t, though the specification's prose says uint64_t. Zero or less
//     is an error.
//   - `extract_data` takes a struct ArrowAsyncTask*. There is no struct ArrowArrayTask.
//
// What each device type means
// ---------------------------
// For most types of device, the specification does not say what a buffer pointer is, what device_id
// counts and how a consumer waits. arrow-device follows the table below when it produces an array,
// and expects that other producers follow the table. All 64 bits of a device_id are kept. A null
// sync_event means that the data is ready.
//
//   type             buffers[i]                device_id               sync_event points to, and how it is used
//   ---------------  ------------------------  ----------------------  -------------------------------------------
//   CPU           1  host address              -1; any accepted        always null
//   CUDA          2  device address            CUDA ordinal            cudaEvent_t (= CUevent); a stream waits.
//                                                                      Primary context
//   CUDA_HOST     3  pinned host address       CUDA ordinal;           cudaEvent_t; then the host reads in place
//                                              -1 and 0 accepted
//   OPENCL        4  cl_mem; SVM pointer only  a hint: the handle      cl_event; across contexts the host waits.
//                    if both sides chose it    decides                 A negative status is an error. The exporter
//                                                                      owns one reference to each handle
//   VULKAN        7  VkBuffer                  value of the VkDevice   VkEvent, set after a full barrier. The host
//                                              handle                  polls, unless the device has one queue. The
//                                                                      application gives both sides one VkDevice
//   METAL         8  address of page-aligned   registryID              MTLSharedEvent object, signalled at 1
//                    shared storage
//   VPI           9  offset into simulated     simulator index         always null: the exporter waits
//                    memory; 0 is null
//   ROCM         10  device address            HIP ordinal             hipEvent_t; as CUDA
//   ROCM_HOST    11  pinned host address       HIP ordinal;            hipEvent_t; as CUDA_HOST
//                                              -1 and 0 accepted
//   EXT_DEV      12  address of the software   its instance, tagged    a table of functions: magic, version, size,
//                    device                                            query, timed wait, queue wait, context
//   CUDA_MANAGED 13  managed address           CUDA ordinal;           cudaEvent_t; the host reads in place only
//                                              -1 and 0 accepted       with concurrent managed access
//   ONEAPI       14  USM pointer               index over the root     sycl::event of the same SYCL major version;
//                                              devices                 default context
//   WEBGPU       15  WGPUBuffer of webgpu.h    value of the            always null: the device has one queue
//                                              WGPUDevice handle
//   HEXAGON      16  rpcmem address            DSP domain              always null; both sides know the descriptor
//
// A handle (cl_mem, VkBuffer, WGPUBuffer) cannot be offset: a slice changes ArrowArray.offset and
// keeps the handle. The sizes buffer of a utf8_view or binary_view array is host memory on every
// device, as Arrow C++ has it. DLPack numbers pinned and managed memory as device 0 and uses an
// MTLBuffer for Metal.

#ifndef ARROW_DEVICE_ABI_H_
#define ARROW_DEVICE_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef ARROW_C_DATA_INTERFACE
#  define ARROW_C_DATA_INTERFACE

#  define ARROW_FLAG_DICTIONARY_ORDERED 1
#  define ARROW_FLAG_NULLABLE 2
#  define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
  // Array type description
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;

  // Release callback
  void (*release)(struct ArrowSchema*);
  // Opaque producer-specific data
  void* private_data;
};

struct ArrowArray {
  // Array data description
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;

  // Release callback
  void (*release)(struct ArrowArray*);
  // Opaque producer-specific data
  void* private_data;
};

#  define ARROW_STATISTICS_KEY_AVERAGE_BYTE_WIDTH_EXACT "ARROW:average_byte_width:exact"
#  define ARROW_STATISTICS_KEY_AVERAGE_BYTE_WIDTH_APPROXIMATE \
    "ARROW:average_byte_width:approximate"
#  define ARROW_STATISTICS_KEY_DISTINCT_COUNT_EXACT "ARROW:distinct_count:exact"
#  define ARROW_STATISTICS_KEY_DISTINCT_COUNT_APPROXIMATE \
    "ARROW:distinct_count:approximate"
#  define ARROW_STATISTICS_KEY_MAX_BYTE_WIDTH_EXACT "ARROW:max_byte_width:exact"
#  define ARROW_STATISTICS_KEY_MAX_BYTE_WIDTH_APPROXIMATE \
    "ARROW:max_byte_width:approximate"
#  define ARROW_STATISTICS_KEY_MAX_VALUE_EXACT "ARROW:max_value:exact"
#  define ARROW_STATISTICS_KEY_MAX_VALUE_APPROXIMATE "ARROW:max_value:approximate"
#  define ARROW_STATISTICS_KEY_MIN_VALUE_EXACT "ARROW:min_value:exact"
#  define ARROW_STATISTICS_KEY_MIN_VALUE_APPROXIMATE "ARROW:min_value:approximate"
#  define ARROW_STATISTICS_KEY_NULL_COUNT_EXACT "ARROW:null_count:exact"
#  define ARROW_STATISTICS_KEY_NULL_COUNT_APPROXIMATE "ARROW:null_count:approximate"
#  define ARROW_STATISTICS_KEY_ROW_COUNT_EXACT "ARROW:row_count:exact"
#  define ARROW_STATISTICS_KEY_ROW_COUNT_APPROXIMATE "ARROW:row_count:approximate"

#endif  // ARROW_C_DATA_INTERFACE

#ifndef ARROW_C_DEVICE_DATA_INTERFACE
#  define ARROW_C_DEVICE_DATA_INTERFACE

// Spec and Documentation: https://arrow.apache.org/docs/format/CDeviceDataInterface.html

// DeviceType for the allocated memory
typedef int32_t ArrowDeviceType;

// CPU device, same as using ArrowArray directly
#  define ARROW_DEVICE_CPU 1
// CUDA GPU Device
#  define ARROW_DEVICE_CUDA 2
// Pinned CUDA CPU memory by cudaMallocHost
#  define ARROW_DEVICE_CUDA_HOST 3
// OpenCL Device
#  define ARROW_DEVICE_OPENCL 4
// Vulkan buffer for next-gen graphics
#  define ARROW_DEVICE_VULKAN 7
// Metal for Apple GPU
#  define ARROW_DEVICE_METAL 8
// Verilog simulator buffer
#  define ARROW_DEVICE_VPI 9
// ROCm GPUs for AMD GPUs
#  define ARROW_DEVICE_ROCM 10
// Pinned ROCm CPU memory allocated by hipMallocHost
#  define ARROW_DEVICE_ROCM_HOST 11
// Reserved for extension
#  define ARROW_DEVICE_EXT_DEV 12
// CUDA managed/unified memory allocated by cudaMallocManaged
#  define ARROW_DEVICE_CUDA_MANAGED 13
// unified shared memory allocated on a oneAPI non-partitioned device.
#  define ARROW_DEVICE_ONEAPI 14
// GPU support for next-gen WebGPU standard
#  define ARROW_DEVICE_WEBGPU 15
// Qualcomm Hexagon DSP
#  define ARROW_DEVICE_HEXAGON 16

struct ArrowDeviceArray {
  // the Allocated Array
  //
  // the buffers in the array (along with the buffers of any
  // children) are what is allocated on the device.
  struct ArrowArray array;
  // The device id to identify a specific device
  int64_t device_id;
  // The type of device which can access this memory.
  ArrowDeviceType device_type;
  // An event-like object to synchronize on if needed.
  void* sync_event;
  // Reserved bytes for future expansion.
  int64_t reserved[3];
};

#endif  // ARROW_C_DEVICE_DATA_INTERFACE

#ifndef ARROW_C_STREAM_INTERFACE
#  define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
  // Callback to get the stream type
  // (will be the same for all arrays in the stream).
  //
  // Return value: 0 if successful, an `errno`-compatible error code otherwise.
  //
  // If successful, the ArrowSchema must be released independently from the stream.
  int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);

  // Callback to get the next array
  // (if no error and the array is released, the stream has ended)
  //
  // Return value: 0 if successful, an `errno`-compatible error code otherwise.
  //
  // If successful, the ArrowArray must be released independently from the stream.
  int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);

  // Callback to get optional detailed error information.
  // This must only be called if the last stream operation failed
  // with a non-0 return code.
  //
  // Return value: pointer to a null-terminated character array describing
  // the last error, or NULL if no description is available.
  //
  // The returned pointer is only valid until the next operation on this stream
  // (including release).
  const char* (*get_last_error)(struct ArrowArrayStream*);

  // Release callback: release the stream's own resources.
  // Note that arrays returned by `get_next` must be individually released.
  void (*release)(struct ArrowArrayStream*);

  // Opaque producer-specific data
  void* private_data;
};

#endif  // ARROW_C_STREAM_INTERFACE

#ifndef ARROW_C_DEVICE_STREAM_INTERFACE
#  define ARROW_C_DEVICE_STREAM_INTERFACE

// Equivalent to ArrowArrayStream, but for ArrowDeviceArrays.
//
// This stream is intended to provide a stream of data on a single
// device, if a producer wants data to be produced on multiple devices
// then multiple streams should be provided. One per device.
struct ArrowDeviceArrayStream {
  // The device that this stream produces data on.
  ArrowDeviceType device_type;

  // Callback to get the stream schema
  // (will be the same for all arrays in the stream).
  //
  // Return value 0 if successful, an `errno`-compatible error code otherwise.
  //
  // If successful, the ArrowSchema must be released independently from the stream.
  // The schema should be accessible via CPU memory.
  int (*get_schema)(struct ArrowDeviceArrayStream* self, struct ArrowSchema* out);

  // Callback to get the next array
  // (if no error and the array is released, the stream has ended)
  //
  // Return value: 0 if successful, an `errno`-compatible error code otherwise.
  //
  // If successful, the ArrowDeviceArray must be released independently from the stream.
  int (*get_next)(struct ArrowDeviceArrayStream* self, struct ArrowDeviceArray* out);

  // Callback to get optional detailed error information.
  // This must only be called if the last stream operation failed
  // with a non-0 return code.
  //
  // Return value: pointer to a null-terminated character array describing
  // the last error, or NULL if no description is available.
  //
  // The returned pointer is only valid until the next operation on this stream
  // (including release).
  const char* (*get_last_error)(struct ArrowDeviceArrayStream* self);

  // Release callback: release the stream's own resources.
  // Note that arrays returned by `get_next` must be individually released.
  void (*release)(struct ArrowDeviceArrayStream* self);

  // Opaque producer-specific data
  void* private_data;
};

#endif  // ARROW_C_DEVICE_STREAM_INTERFACE

#ifndef ARROW_C_ASYNC_STREAM_INTERFACE
#  define ARROW_C_ASYNC_STREAM_INTERFACE

// EXPERIMENTAL: ArrowAsyncTask represents available data from a producer that was passed
// to an invocation of `on_next_task` on the ArrowAsyncDeviceStreamHandler.
//
// The reason for this Task approach instead of the Async interface returning
// the Array directly is to allow for more complex thread handling and reducing
// context switching and data transfers between CPU cores (e.g. from one L1/L2
// cache to another) if desired.
//
// For example, the `on_next_task` callback can be called when data is ready, while
// the producer puts potential "decoding" logic in the `ArrowAsyncTask` object. This
// allows for the producer to manage the I/O on one thread which calls `on_next_task`
// and the consumer can determine when the decoding (producer logic in the `extract_data`
// callback of the task) occurs and on which thread, to avoid a CPU core transfer
// (data staying in the L2 cache).
struct ArrowAsyncTask {
  // This callback should populate the ArrowDeviceArray associated with this task.
  // The order of ArrowAsyncTasks provided by the producer enables a consumer to
  // ensure the order of data to process.
  //
  // This function is expected to be synchronous, but should not perform any blocking
  // I/O. Ideally it should be as cheap as possible so as to not tie up the consumer
  // thread unnecessarily.
  //
  // Returns: 0 if successful, errno-compatible error otherwise.
  //
  // If a non-0 value is returned then it should be followed by a call to `on_error`
  // on the appropriate ArrowAsyncDeviceStreamHandler. This is because it's highly
  // likely that whatever is calling this function may be entirely disconnected from
  // the current control flow. Indicating an error here with a non-zero return allows
  // the current flow to be aware of the error occurring, while still allowing any
  // logging or error handling to still be centralized in the `on_error` callback of
  // the original Async handler.
  //
  // Rather than a release callback, any required cleanup should be performed as part
  // of the invocation of `extract_data`. Ownership of the Array is passed to the consumer
  // calling this, and so it must be released separately.
  //
  // It is only valid to call this method exactly once.
  int (*extract_data)(struct ArrowAsyncTask* self, struct ArrowDeviceArray* out);

  // opaque task-specific data
  void* private_data;
};

// EXPERIMENTAL: ArrowAsyncProducer represents a 1-to-1 relationship between an async
// producer and consumer. This object allows the consumer to perform backpressure and flow
// control on the asynchronous stream processing. This object must be owned by the
// producer who creates it, and thus is responsible for cleaning it up.
struct ArrowAsyncProducer {
  // The device type that this stream produces data on.
  ArrowDeviceType device_type;

  // A consumer must call this function to start receiving on_next_task calls.
  //
  // It *must* be valid to call this synchronously from within `on_next_task` or
  // `on_schema`, but this function *must not* immediately call `on_next_task` so as
  // to avoid recursion and reentrant callbacks.
  //
  // After cancel has been called, additional calls to this function must be NOPs,
  // but allowed. While not cancelled, calling this function must register the
  // given number of additional arrays/batches to be produced with the producer.
  // The producer should only call `on_next_task` at most the registered number
  // of arrays before propagating backpressure.
  //
  // Any error encountered by calling request must be propagated by calling the `on_error`
  // callback of the ArrowAsyncDeviceStreamHandler.
  //
  // While not cancelled, any subsequent calls to `on_next_task`, `on_error` or
  // `release` should be scheduled by the producer to be called later.
  //
  // It is invalid for a consumer to call this with a value of n <= 0, producers should
  // error if given such a value.
  void (*request)(struct ArrowAsyncProducer* self, int64_t n);

  // This cancel callback signals a producer that it must eventually stop making calls
  // to on_next_task. It must be idempotent and thread-safe. After calling cancel once,
  // subsequent calls must be NOPs. This must not call any consumer-side handlers other
  // than `on_error`.
  //
  // It is not required that calling cancel affect the producer immediately, only that it
  // must eventually stop calling on_next_task and subsequently call release on the
  // async handler. As such, a consumer must be prepared to receive one or more calls to
  // `on_next_task` even after calling cancel if there are still requested arrays pending.
  //
  // Successful cancellation should *not* result in the producer calling `on_error`, it
  // should finish out any remaining tasks and eventually call `release`.
  //
  // Any error encountered during handling a call to cancel must be reported via the
  // on_error callback on the async stream handler.
  void (*cancel)(struct ArrowAsyncProducer* self);

  // Any additional metadata tied to a specific stream of data. This must either be NULL
  // or a valid pointer to metadata which is encoded in the same way schema metadata
  // would be. Non-null metadata must be valid for the lifetime of this object. As an
  // example a producer could use this to provide the total number of rows and/or batches
  // in the stream if known.
  const char* additional_metadata;

  // producer-specific opaque data.
  void* private_data;
};

// EXPERIMENTAL: Similar to ArrowDeviceArrayStream, except designed for an asynchronous
// style of interaction. While ArrowDeviceArrayStream provides producer
// defined callbacks, this is intended to be created by the consumer instead.
// The consumer passes this handler to the producer, which in turn uses the
// callbacks to inform the consumer of events in the stream.
struct ArrowAsyncDeviceStreamHandler {
  // Handler for receiving a schema. The passed in stream_schema must be
  // released or moved by the handler (producer is giving ownership of the schema to
  // the handler, but not ownership of the top level object itself).
  //
  // With the exception of an error occurring (on_error), this must be the first
  // callback function which is called by a producer and must only be called exactly
  // once. As such, the producer should provide a valid ArrowAsyncProducer instance
  // so the consumer can control the flow. See the documentation on ArrowAsyncProducer
  // for how it works. The ArrowAsyncProducer is owned by the producer who calls this
  // function and thus the producer is responsible for cleaning it up when calling
  // the release callback of this handler.
  //
  // If there is any additional metadata tied to this stream, it will be provided as
  // a non-null value for the `additional_metadata` field of the ArrowAsyncProducer
  // which will be valid at least until the release callback is called.
  //
  // Return value: 0 if successful, `errno`-compatible error otherwise
  //
  // A producer that receives a non-zero return here should stop producing and eventually
  // call release instead.
  int (*on_schema)(struct ArrowAsyncDeviceStreamHandler* self,
                   struct ArrowSchema* stream_schema);

  // Handler for receiving data. This is called when data is available providing an
  // ArrowAsyncTask struct to signify it. The producer indicates the end of the stream
  // by passing NULL as the value for the task rather than a valid pointer to a task.
  // The task object is only valid for the lifetime of this function call, if a consumer
  // wants to utilize it after this function returns, it must copy or move the contents
  // of it to a new ArrowAsyncTask object.
  //
  // The `request` callback of a provided ArrowAsyncProducer must be called in order
  // to start receiving calls to this handler.
  //
  // The metadata argument can be null or can be used by a producer
  // to pass arbitrary extra information to the consumer (such as total number
  // of rows, context info, or otherwise). The data should be passed using the same
  // encoding as the metadata within the ArrowSchema struct itself (defined in
  // the spec at
  // https://arrow.apache.org/docs/format/CDataInterface.html#c.ArrowSchema.metadata)
  //
  // If metadata is non-null then it only needs to exist for the lifetime of this call,
  // a consumer who wants it to live after that must copy it to ensure lifetime.
  //
  // A producer *must not* call this concurrently from multiple different threads.
  //
  // A consumer must be prepared to receive one or more calls to this callback even
  // after calling cancel on the corresponding ArrowAsyncProducer, as cancel does not
  // guarantee it happens immediately.
  //
  // Return value: 0 if successful, `errno`-compatible error otherwise.
  //
  // If the consumer returns a non-zero return from this method, that indicates to the
  // producer that it should stop propagating data as an error occurred. After receiving
  // such a return, the only interaction with this object is for the producer to call
  // the `release` callback.
  int (*on_next_task)(struct ArrowAsyncDeviceStreamHandler* self,
                      struct ArrowAsyncTask* task, const char* metadata);

  // Handler for encountering an error. The producer should call release after
  // this returns to clean up any resources. The `code` passed in can be any error
  // code that a producer wants, but should be errno-compatible for consistency.
  //
  // If the message or metadata are non-null, they will only last as long as this
  // function call. The consumer would need to perform a copy of the data if it is
  // necessary for them to live past the lifetime of this call.
  //
  // Error metadata should be encoded as with metadata in ArrowSchema, defined in
  // the spec at
  // https://arrow.apache.org/docs/format/CDataInterface.html#c.ArrowSchema.metadata
  //
  // It is valid for this to be called by a producer with or without a preceding call
  // to ArrowAsyncProducer.request.
  //
  // This callback must not call any methods of an ArrowAsyncProducer object.
  void (*on_error)(struct ArrowAsyncDeviceStreamHandler* self, int code,
                   const char* message, const char* metadata);

  // Release callback to release any resources for the handler. Should always be
  // called by a producer when it is done utilizing a handler. No callbacks should
  // be called after this is called.
  //
  // It is valid for the release callback to be called by a producer with or without
  // a preceding call to ArrowAsyncProducer.request.
  //
  // The release callback must not call any methods of an ArrowAsyncProducer object.
  void (*release)(struct ArrowAsyncDeviceStreamHandler* self);

  // MUST be populated by the producer BEFORE calling any callbacks other than release.
  // This provides the connection between a handler and its producer, and must exist until
  // the release callback is called.
  struct ArrowAsyncProducer* producer;

  // Opaque handler-specific data
  void* private_data;
};

#endif  // ARROW_C_ASYNC_STREAM_INTERFACE

#ifdef __cplusplus
}
#endif

// DLPack's later device types. The specification promises to follow DLPack's list and does not name
// these yet.
#ifndef ARROW_DEVICE_MAIA
#  define ARROW_DEVICE_MAIA 17
#endif
#ifndef ARROW_DEVICE_TRAINIUM
#  define ARROW_DEVICE_TRAINIUM 18
#endif

// Whichever copy of the declarations won, it must agree with this.

#ifdef __cplusplus
#  define ARROW_DEVICE_ABI_ASSERT(condition, text) static_assert(condition, text)
#  define ARROW_DEVICE_ABI_IS_SIGNED(type) (static_cast<type>(-1) < 0)
#else
#  define ARROW_DEVICE_ABI_ASSERT(condition, text) _Static_assert(condition, text)
#  define ARROW_DEVICE_ABI_IS_SIGNED(type) ((type)-1 < 0)
#endif
#define ARROW_DEVICE_ABI_SIZE(type, size) \
  ARROW_DEVICE_ABI_ASSERT(sizeof(type) == (size), #type " must have " #size " bytes")
#define ARROW_DEVICE_ABI_OFFSET(type, member, offset) \
  ARROW_DEVICE_ABI_ASSERT(offsetof(type, member) == (offset), \
                          #type "." #member " must be at " #offset)
#define ARROW_DEVICE_ABI_VALUE(name, value) \
  ARROW_DEVICE_ABI_ASSERT((name) == (value), #name " must be " #value)

ARROW_DEVICE_ABI_ASSERT(sizeof(ArrowDeviceType) == 4 && ARROW_DEVICE_ABI_IS_SIGNED(ArrowDeviceType),
                        "ArrowDeviceType must be an int32_t");

// The numbers below hold where a pointer has 64 bits.
#if UINTPTR_MAX == 0xffffffffffffffffu

ARROW_DEVICE_ABI_SIZE(struct ArrowSchema, 72);
ARROW_DEVICE_ABI_OFFSET(struct ArrowSchema, format, 0);
ARROW_DEVICE_ABI_OFFSET(struct ArrowSchema, name, 8);
ARROW_DEVICE_ABI_OFFSET(struct ArrowSchema, metadata, 16);
ARROW_DEVICE_ABI_OFFSET(struct ArrowSchema, flags, 24);
ARROW_DEVICE_ABI_OFFSET(struct ArrowSchema, n_children, 32);
ARROW_DEVICE_ABI_OFFSET(struct ArrowSchema, children, 40);
ARROW_DEVICE_ABI_OFFSET(struct ArrowSchema, dictionary, 48);
ARROW_DEVICE_ABI_OFFSET(struct ArrowSchema, release, 56);
ARROW_DEVICE_ABI_OFFSET(struct ArrowSchema, private_data, 64);

ARROW_DEVICE_ABI_SIZE(struct ArrowArray, 80);
ARROW_DEVICE_ABI_OFFSET(struct ArrowArray, length, 0);
ARROW_DEVICE_ABI_OFFSET(struct ArrowArray, null_count, 8);
ARROW_DEVICE_ABI_OFFSET(struct ArrowArray, offset, 16);
ARROW_DEVICE_ABI_OFFSET(struct ArrowArray, n_buffers, 24);
ARROW_DEVICE_ABI_OFFSET(struct ArrowArray, n_children, 32);
ARROW_DEVICE_ABI_OFFSET(struct ArrowArray, buffers, 40);
ARROW_DEVICE_ABI_OFFSET(struct ArrowArray, children, 48);
ARROW_DEVICE_ABI_OFFSET(struct ArrowArray, dictionary, 56);
ARROW_DEVICE_ABI_OFFSET(struct ArrowArray, release, 64);
ARROW_DEVICE_ABI_OFFSET(struct ArrowArray, private_data, 72);

ARROW_DEVICE_ABI_SIZE(struct ArrowArrayStream, 40);
ARROW_DEVICE_ABI_OFFSET(struct ArrowArrayStream, get_schema, 0);
ARROW_DEVICE_ABI_OFFSET(struct ArrowArrayStream, get_next, 8);
ARROW_DEVICE_ABI_OFFSET(struct ArrowArrayStream, get_last_error, 16);
ARROW_DEVICE_ABI_OFFSET(struct ArrowArrayStream, release, 24);
ARROW_DEVICE_ABI_OFFSET(struct ArrowArrayStream, private_data, 32);

ARROW_DEVICE_ABI_SIZE(struct ArrowDeviceArray, 128);
ARROW_DEVICE_ABI_OFFSET(struct ArrowDeviceArray, array, 0);
ARROW_DEVICE_ABI_OFFSET(struct ArrowDeviceArray, device_id, 80);
ARROW_DEVICE_ABI_OFFSET(struct ArrowDeviceArray, device_type, 88);
ARROW_DEVICE_ABI_OFFSET(struct ArrowDeviceArray, sync_event, 96);
ARROW_DEVICE_ABI_OFFSET(struct ArrowDeviceArray, reserved, 104);

ARROW_DEVICE_ABI_SIZE(struct ArrowDeviceArrayStream, 48);
ARROW_DEVICE_ABI_OFFSET(struct ArrowDeviceArrayStream, device_type, 0);
ARROW_DEVICE_ABI_OFFSET(struct ArrowDeviceArrayStream, get_schema, 8);
ARROW_DEVICE_ABI_OFFSET(struct ArrowDeviceArrayStream, get_next, 16);
ARROW_DEVICE_ABI_OFFSET(struct ArrowDeviceArrayStream, get_last_error, 24);
ARROW_DEVICE_ABI_OFFSET(struct ArrowDeviceArrayStream, release, 32);
ARROW_DEVICE_ABI_OFFSET(struct ArrowDeviceArrayStream, private_data, 40);

ARROW_DEVICE_ABI_SIZE(struct ArrowAsyncTask, 16);
ARROW_DEVICE_ABI_OFFSET(struct ArrowAsyncTask, extract_data, 0);
ARROW_DEVICE_ABI_OFFSET(struct ArrowAsyncTask, private_data, 8);

ARROW_DEVICE_ABI_SIZE(struct ArrowAsyncProducer, 40);
ARROW_DEVICE_ABI_OFFSET(struct ArrowAsyncProducer, device_type, 0);
ARROW_DEVICE_ABI_OFFSET(struct ArrowAsyncProducer, request, 8);
ARROW_DEVICE_ABI_OFFSET(struct ArrowAsyncProducer, cancel, 16);
ARROW_DEVICE_ABI_OFFSET(struct ArrowAsyncProducer, additional_metadata, 24);
ARROW_DEVICE_ABI_OFFSET(struct ArrowAsyncProducer, private_data, 32);

ARROW_DEVICE_ABI_SIZE(struct ArrowAsyncDeviceStreamHandler, 48);
ARROW_DEVICE_ABI_OFFSET(struct ArrowAsyncDeviceStreamHandler, on_schema, 0);
ARROW_DEVICE_ABI_OFFSET(struct ArrowAsyncDeviceStreamHandler, on_next_task, 8);
ARROW_DEVICE_ABI_OFFSET(struct ArrowAsyncDeviceStreamHandler, on_error, 16);
ARROW_DEVICE_ABI_OFFSET(struct ArrowAsyncDeviceStreamHandler, release, 24);
ARROW_DEVICE_ABI_OFFSET(struct ArrowAsyncDeviceStreamHandler, producer, 32);
ARROW_DEVICE_ABI_OFFSET(struct ArrowAsyncDeviceStreamHandler, private_data, 40);

#endif  // 64-bit pointers

ARROW_DEVICE_ABI_VALUE(ARROW_FLAG_DICTIONARY_ORDERED, 1);
ARROW_DEVICE_ABI_VALUE(ARROW_FLAG_NULLABLE, 2);
ARROW_DEVICE_ABI_VALUE(ARROW_FLAG_MAP_KEYS_SORTED, 4);
ARROW_DEVICE_ABI_VALUE(ARROW_DEVICE_CPU, 1);
ARROW_DEVICE_ABI_VALUE(ARROW_DEVICE_CUDA, 2);
ARROW_DEVICE_ABI_VALUE(ARROW_DEVICE_CUDA_HOST, 3);
ARROW_DEVICE_ABI_VALUE(ARROW_DEVICE_OPENCL, 4);
ARROW_DEVICE_ABI_VALUE(ARROW_DEVICE_VULKAN, 7);
ARROW_DEVICE_ABI_VALUE(ARROW_DEVICE_METAL, 8);
ARROW_DEVICE_ABI_VALUE(ARROW_DEVICE_VPI, 9);
ARROW_DEVICE_ABI_VALUE(ARROW_DEVICE_ROCM, 10);
ARROW_DEVICE_ABI_VALUE(ARROW_DEVICE_ROCM_HOST, 11);
ARROW_DEVICE_ABI_VALUE(ARROW_DEVICE_EXT_DEV, 12);
ARROW_DEVICE_ABI_VALUE(ARROW_DEVICE_CUDA_MANAGED, 13);
ARROW_DEVICE_ABI_VALUE(ARROW_DEVICE_ONEAPI, 14);
ARROW_DEVICE_ABI_VALUE(ARROW_DEVICE_WEBGPU, 15);
ARROW_DEVICE_ABI_VALUE(ARROW_DEVICE_HEXAGON, 16);
ARROW_DEVICE_ABI_VALUE(ARROW_DEVICE_MAIA, 17);
ARROW_DEVICE_ABI_VALUE(ARROW_DEVICE_TRAINIUM, 18);

#undef ARROW_DEVICE_ABI_VALUE
#undef ARROW_DEVICE_ABI_OFFSET
#undef ARROW_DEVICE_ABI_SIZE
#undef ARROW_DEVICE_ABI_IS_SIGNED
#undef ARROW_DEVICE_ABI_ASSERT

#endif  // ARROW_DEVICE_ABI_H_
