// arrow-device for C11 and C++17: Arrow data that lives on a device, produced and consumed without
// copying it.
//
//   cc program.c $(pkg-config --cflags --libs arrow-device)
//
// A consumer that was handed two C structs:
//
//   struct ardev_error error; struct ardev_schema* schema; struct ardev_array* array;
//   struct ardev_view* view; struct ardev_place values;
//   if (ardev_schema_import(&c_schema, &schema, &error)) goto failed;
//   if (ardev_array_import(&c_array, schema, &array, &error)) goto failed;  // reads no data
//   if (ardev_view_open(array, queue, &view, &error)) goto failed;          // the queue waits
//   if (ardev_view_buffer(view, 1, &values, &error)) goto failed;           // submit the work now
//   ardev_view_free(view);                                                  // all is submitted
//   ardev_array_free(array);                                                // released when unused
//
// Seven rules hold for every function. Comments below add what the rules leave open.
//
// 1. Errors. A function that can fail returns 0 or an errno value. Its last parameter is a
//    `struct ardev_error*` of the caller's, which the function writes on failure and leaves alone
//    on success; pass NULL if you do not need the details. Nothing aborts, and nothing throws. NULL
//    for any other pointer is EINVAL, unless the parameter or the member is marked ARDEV_NULLABLE.
//
// 2. Objects (`struct ardev_...` without members here) belong to the caller from the call that
//    returned them until `ardev_..._free`, which takes NULL, too, and frees only this object. An
//    object that is passed to a function still belongs to the caller, who may free it at once: a
//    thing that others still need is kept. `out` is NULL after a failure.
//
// 3. C structs of Arrow and DLPack that are passed in (`_import`) are taken over, also when the
//    call fails. After the call an Arrow struct is marked as released, and a DLPack tensor no
//    longer belongs to the caller. The release callback has been called by then, or is called once,
//    on any thread, when the last use of the data is over. Structs that are written to (`_export`)
//    are overwritten without being released first. Afterwards they belong to the caller, who
//    releases them or hands them on. After a failure they are marked as released.
//
// 4. Threads. Every function can be called on any thread, also on several threads at once and with
//    the same objects; but do not free an object while another call uses it. Callbacks of the
//    caller's are called on any thread, and must not throw or longjmp. The library calls the
//    `release` that is given with a `context` once, after its last use of the context, also when
//    the function that got the context fails. A callback may call the library, unless its comment
//    says that it may not; what would wait for the call that the callback runs in is EINVAL. In a
//    child of fork, a call that needs a device of the parent's other than the host is ENOSYS, and
//    so is a call with an object that another thread of the parent was using.
//
// 5. Waiting. A function waits only if its comment says so, with one exception: calls for the same
//    stream, buffer or view on several threads take turns. A `queue` is a lane of work on a device;
//    work that is submitted later does not start before earlier work is done. Where NULL is allowed
//    for a queue, NULL stands for the host, which waits.
//
// 6. Structs that grow. A struct that begins with `struct_size` may have more members in a later
//    version, at its end. Set the whole struct to zero, and then `struct_size` to its sizeof,
//    whether the library reads or writes the struct: the library touches no more bytes than that.
//    If the size is less than that of version 0.1, or if a member is set that this library does not
//    know (ENOSYS), the call fails, reads no more of the struct and calls no `release` in it. A
//    table's entries have the `struct_size` of the first. Other structs change with the major
//    version only.
//
// 7. Memory for data is allocated by ardev_buffer_allocate, ardev_buffer_copy,
//    ardev_array_from_..., ardev_array_copy and ardev_array_to_shareable, by tensor functions that
//    may copy, and, for the time of the call, by ardev_array_validate with a queue. Other functions
//    allocate only their object, on the heap.
//
// Sizes are bytes; lengths, and the offsets of arrays, are elements. A timeout is in nanoseconds,
// negative for none.

#ifndef ARROW_DEVICE_ARROW_DEVICE_H_
#define ARROW_DEVICE_ARROW_DEVICE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Arrow's C structs, and what an address, an id and an event are on each type of device; and
// DLPack's structs.
#include "abi.h"
#include "dlpack_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

// Marks what may be NULL.
#define ARDEV_NULLABLE

// Compilers warn where a program ignores the result of a function that can fail. To switch the
// warning off, define this as nothing before this file is included.
#ifndef ARDEV_CHECK
#  if defined(__cplusplus) && __cplusplus >= 201703L
#    define ARDEV_CHECK [[nodiscard]]
#  elif defined(__GNUC__)
#    define ARDEV_CHECK __attribute__((warn_unused_result))
#  else
#    define ARDEV_CHECK
#  endif
#endif

#define ARDEV_VERSION_MAJOR 0
#define ARDEV_VERSION_MINOR 1

// The version of the library: major * 65536 + minor. Programs compiled for another major version do
// not work with it.
uint32_t ardev_version(void);

// ------------------------------------------------------------------------------------------ errors

// The kind of a mistake, and so whose it was. Finer than errno: the first five are all EINVAL.
enum ardev_kind {
  ARDEV_KIND_INVALID_ARGUMENT = 0,  // EINVAL: this program passed something it may not
  // EINVAL: another party's struct breaks a rule of the specification.
  ARDEV_KIND_MALFORMED = 1,
  ARDEV_KIND_RELEASED = 2,          // EINVAL: a struct that is released already
  ARDEV_KIND_SCHEMA_MISMATCH = 3,   // EINVAL: an array that is not of its schema's type
  ARDEV_KIND_INVALID_DATA = 4,      // EINVAL: the data itself is wrong
  ARDEV_KIND_LIMIT_EXCEEDED = 5,    // E2BIG: too deep or too large
  ARDEV_KIND_UNSUPPORTED = 6,       // ENOSYS: legal, and not possible here
  ARDEV_KIND_DRIVER_MISSING = 7,    // ENOENT: the message says what to install
  ARDEV_KIND_DEVICE_MISSING = 8,    // ENODEV: there is no such device, or it is not open
  ARDEV_KIND_NOT_REACHABLE = 9,     // EXDEV: this queue cannot touch that memory; copy it first
  ARDEV_KIND_NOT_READY = 10,        // EAGAIN
  ARDEV_KIND_OUT_OF_MEMORY = 11,    // ENOMEM
  // ENXIO: the device stopped working, and all that was on it is gone.
  ARDEV_KIND_DEVICE_LOST = 12,
  ARDEV_KIND_DRIVER = 13,           // EIO: the vendor's library reported an error
  ARDEV_KIND_TIMED_OUT = 14,        // ETIMEDOUT
  ARDEV_KIND_CANCELLED = 15,        // ECANCELED
  // EFAULT: a bug in this library, stopped before it reached the caller.
  ARDEV_KIND_PANICKED = 16,
  ARDEV_KIND_PEER = 17,             // EPROTO, or what another party returned
  // ENOTCONN: the process is about to end, and no driver is called any more.
  ARDEV_KIND_SHUT_DOWN = 18,
  // ENODATA: work that the device had accepted has failed, and its result is not there.
  ARDEV_KIND_WORK_FAILED = 19
};

struct ardev_error {
  int32_t code;         // the errno value that was returned
  int32_t kind;         // an enum ardev_kind
  int64_t vendor_code;  // what the vendor's library returned, or 0
  char message[1008];   // UTF-8 that says what to do, cut to fit; always ends with a NUL
};

// ----------------------------------------------------------------------------------------- devices

struct ardev_device;
struct ardev_queue;
struct ardev_event;
struct ardev_buffer;

#define ARDEV_DEVICE_HOST_READABLE 1   // the host can read the memory in place
#define ARDEV_DEVICE_HANDLES 2         // buffers are handles, not addresses
#define ARDEV_DEVICE_NO_EVENTS 4       // whoever exports waits on the host first
// Arrays show no event: there is one queue, behind which the host waits.
#define ARDEV_DEVICE_ONE_QUEUE 8
#define ARDEV_DEVICE_EVENT_OBJECTS 16  // `sync_event` is the event, not a pointer to its handle
#define ARDEV_DEVICE_PARTS 32  // of ardev_driver: a part of a handle can have a handle of its own
// Of ardev_driver: a copy within the device is between two handles, and never inside one.
#define ARDEV_DEVICE_DISTINCT_COPIES 64
// Of ardev_driver: every buffer needs an allocation of its own, although there are addresses.
#define ARDEV_DEVICE_SEPARATE 128

struct ardev_device_info {
  size_t struct_size;  // rule 6
  ArrowDeviceType device_type;
  int32_t status;      // 0, or why devices of this type cannot be used: an errno value
  int64_t device_id;   // what ardev_device_open takes
  // Every allocation begins at a multiple of this. In a list it is 0, not known, where the device
  // is not open.
  uint64_t alignment;
  uint32_t flags;      // ARDEV_DEVICE_...; 0 with an alignment of 0
  char name[252];      // for people: the device's name, or what to do where status is not 0
};

// Lists the devices that can be opened, and for each other type of device in this build a row with
// the reason why there is none. One row with a `device_type` of 0 names the types that are not in
// this build. Writes at most `capacity` rows, and the number of all rows to `count`.
ARDEV_CHECK int ardev_device_list(struct ardev_device_info* ARDEV_NULLABLE infos, size_t capacity, size_t* count,
                                  struct ardev_error* ARDEV_NULLABLE error);

// Opens a device. For ARROW_DEVICE_CPU the id does not matter. For ARROW_DEVICE_VULKAN the id is
// the place in the list, or the VkDevice of a device that is open: arrays have that VkDevice as
// their id, which ardev_device_inspect writes.
ARDEV_CHECK int ardev_device_open(ArrowDeviceType device_type, int64_t device_id, struct ardev_device** out,
                                  struct ardev_error* ARDEV_NULLABLE error);

// Which kind of memory is allocated, on types of device that have several. A kind that the type of
// device does not have is ENOSYS.
#define ARDEV_MEMORY_AUTOMATIC 0     // as ardev_device_open has it
// ARROW_DEVICE_OPENCL: addresses of shared virtual memory, and no handles. The first choice holds
// for the device in this process, another one is EINVAL.
#define ARDEV_MEMORY_SVM 1
#define ARDEV_MEMORY_HOST_VISIBLE 2  // ARROW_DEVICE_VULKAN: the host reads and writes it in place
#define ARDEV_MEMORY_DEVICE_ONLY 3   // ARROW_DEVICE_VULKAN: the host does not look into it
// ARROW_DEVICE_ONEAPI: unified shared memory of the host, or that moves between host and device.
#define ARDEV_MEMORY_USM_HOST 4
#define ARDEV_MEMORY_USM_SHARED 5

ARDEV_CHECK int ardev_device_open_with(ArrowDeviceType device_type, int64_t device_id, int32_t memory,
                                       struct ardev_device** out, struct ardev_error* ARDEV_NULLABLE error);

// Opens a device of a context that the application made: for ARROW_DEVICE_OPENCL a cl_context and a
// cl_device_id, for ARROW_DEVICE_WEBGPU the WGPUQueue and the WGPUDevice, of the WebGPU library
// that this process loads (ARROW_DEVICE_WEBGPU_LIBRARY names its file). Both are retained as long
// as they are needed. CUDA and ROCm do not need this function: ardev_device_open opens the primary
// context of a device, in which all data is. Adopt only streams of that context. For Vulkan there
// is ardev_device_open_vulkan, and for oneAPI ardev_device_open_oneapi.
ARDEV_CHECK int ardev_device_open_in(ArrowDeviceType device_type, void* context, void* device, int32_t memory,
                                     struct ardev_device** out, struct ardev_error* ARDEV_NULLABLE error);

// Opens the device of an array that somebody else made, by the array's device_id and one of its
// buffers: in OpenCL the cl_mem tells the context. For other types of device the id is enough; a
// VkDevice has to be open already.
ARDEV_CHECK int ardev_device_open_for(ArrowDeviceType device_type, const void* ARDEV_NULLABLE memory, int64_t device_id,
                                      struct ardev_device** out, struct ardev_error* ARDEV_NULLABLE error);

// Finds a device that is open in this process, whoever opened it; ENODEV where there is none.
ARDEV_CHECK int ardev_device_find(ArrowDeviceType device_type, int64_t device_id, struct ardev_device** out,
                                  struct ardev_error* ARDEV_NULLABLE error);

ARDEV_CHECK int ardev_device_inspect(const struct ardev_device* device, struct ardev_device_info* out,
                                     struct ardev_error* ARDEV_NULLABLE error);

// EINVAL, with the text of a report, if the device has seen mistakes of the program since the last
// call of this function. Only the software device, which is for tests, looks for mistakes.
ARDEV_CHECK int ardev_device_mistakes(const struct ardev_device* device, struct ardev_error* ARDEV_NULLABLE error);

// The device is closed once none of its queues, events, buffers and arrays is left.
void ardev_device_free(struct ardev_device* ARDEV_NULLABLE device);

struct ardev_held {
  size_t struct_size;  // rule 6
  uint64_t allocated;  // memory that was allocated through this library and is not freed yet
  uint64_t staging;    // host memory kept to move data to and from the device
  uint64_t imported;   // what imported arrays need, and
  uint64_t exported;   // exported ones: counted from ardev_device_count_exchanges on
};

// The bytes that this process holds of the device.
ARDEV_CHECK int ardev_device_held(const struct ardev_device* device, struct ardev_held* out,
                                  struct ardev_error* ARDEV_NULLABLE error);
ARDEV_CHECK int ardev_device_count_exchanges(const struct ardev_device* device,
                                             struct ardev_error* ARDEV_NULLABLE error);

// Where a VkBuffer of the application's lies. It has the usages STORAGE_BUFFER, TRANSFER_SRC and
// TRANSFER_DST.
struct ardev_vulkan_binding {
  size_t struct_size;  // rule 6
  void* buffer;                 // the VkBuffer
  // The VkDeviceMemory that it is bound to, with room up to the next multiple of the device's
  // alignment.
  void* memory;
  uint64_t offset;              // where in that it begins: a multiple of the alignment
  uint64_t size;                // how many bytes it has
  // Where the host sees its first byte, if the memory is coherent and stays mapped.
  void* ARDEV_NULLABLE mapped;
};

// Where memory comes from, instead of the device's driver.
struct ardev_allocator {
  size_t struct_size;  // rule 6
  void* ARDEV_NULLABLE context;
  // Writes an address or a handle of at least `size` bytes. Returns 0 or an errno value, ENOMEM if
  // there is no more. `queue` is the driver's handle of the queue in whose order the memory will be
  // used: work that was submitted to that queue may still use the memory. If `queue` is NULL,
  // nothing may still use the memory.
  int (*allocate)(void* context, uint64_t size, void* ARDEV_NULLABLE queue, void** out);
  // Called after the last use.
  void (*free)(void* context, void* memory, uint64_t size);
  void (*ARDEV_NULLABLE release)(void* context);
  // For Vulkan: writes where a VkBuffer of `allocate` lies. Without this function the host cannot
  // read it in place, and no copy can put several buffers into it. Returns 0 or an errno value.
  int (*ARDEV_NULLABLE vulkan_binding)(void* context, void* memory, struct ardev_vulkan_binding* out);
};

// The same device with this allocator, which allocates the buffers of `out`, of queues that `out`
// opens, and of copies to these queues. The struct `allocator` is copied.
ARDEV_CHECK int ardev_device_with_allocator(const struct ardev_device* device, const struct ardev_allocator* allocator,
                                            struct ardev_device** out, struct ardev_error* ARDEV_NULLABLE error);

ARDEV_CHECK int ardev_queue_open(const struct ardev_device* device, struct ardev_queue** out,
                                 struct ardev_error* ARDEV_NULLABLE error);

// A queue that the application opened: a CUstream, a cudaStream_t, a hipStream_t, a
// cl_command_queue; or a VkQueue that was given with its device. The queue has to stay open until
// some call of the library calls `release`: once the object and all data used on the queue are
// freed. NULL is the default queue, if the driver has one.
ARDEV_CHECK int ardev_queue_adopt(const struct ardev_device* device, void* ARDEV_NULLABLE handle,
                                  void* ARDEV_NULLABLE context, void (*ARDEV_NULLABLE release)(void* context),
                                  struct ardev_queue** out, struct ardev_error* ARDEV_NULLABLE error);

// The driver's handle, to submit work of the program's own. Valid as long as the queue.
ARDEV_CHECK int ardev_queue_handle(const struct ardev_queue* queue, void** out,
                                   struct ardev_error* ARDEV_NULLABLE error);

// Calls `submit` once, while nobody else submits to the queue, as Vulkan demands of callers of
// vkQueueSubmit; for other types of device `submit` is called without a lock. `submit` must not
// call this library. In a child of fork `submit` is not called (ENOSYS). A result other than 0 is
// the error.
ARDEV_CHECK int ardev_queue_submit(const struct ardev_queue* queue, int (*submit)(void* context),
                                   void* ARDEV_NULLABLE context, struct ardev_error* ARDEV_NULLABLE error);

// An event behind all work that was submitted to the queue so far.
ARDEV_CHECK int ardev_queue_record(const struct ardev_queue* queue, struct ardev_event** out,
                                   struct ardev_error* ARDEV_NULLABLE error);

// Makes the queue wait for the event. Where their runtimes differ, the host waits in this call.
ARDEV_CHECK int ardev_queue_wait(const struct ardev_queue* queue, const struct ardev_event* event,
                                 struct ardev_error* ARDEV_NULLABLE error);

// Waits until the queue has finished everything.
ARDEV_CHECK int ardev_queue_synchronize(const struct ardev_queue* queue, struct ardev_error* ARDEV_NULLABLE error);
ARDEV_CHECK int ardev_queue_is_idle(const struct ardev_queue* queue, bool* out,
                                    struct ardev_error* ARDEV_NULLABLE error);
void ardev_queue_free(struct ardev_queue* ARDEV_NULLABLE queue);

// An event that the application made: a CUevent, a cudaEvent_t, a hipEvent_t, a cl_event, a
// VkEvent. The work that sets the event has been submitted. The event has to stay until `release`
// is called, as an adopted queue has.
ARDEV_CHECK int ardev_event_adopt(const struct ardev_device* device, void* handle, void* ARDEV_NULLABLE context,
                                  void (*ARDEV_NULLABLE release)(void* context), struct ardev_event** out,
                                  struct ardev_error* ARDEV_NULLABLE error);
// The driver's handle, for which the program can wait. Valid as long as the event.
ARDEV_CHECK int ardev_event_handle(const struct ardev_event* event, void** out,
                                   struct ardev_error* ARDEV_NULLABLE error);
ARDEV_CHECK int ardev_event_is_complete(const struct ardev_event* event, bool* out,
                                        struct ardev_error* ARDEV_NULLABLE error);

// Waits until the event has passed; ETIMEDOUT if it has not passed when the time is over.
ARDEV_CHECK int ardev_event_wait(const struct ardev_event* event, int64_t timeout,
                                 struct ardev_error* ARDEV_NULLABLE error);
void ardev_event_free(struct ardev_event* ARDEV_NULLABLE event);

#include "vulkan.h"
#include "oneapi.h"
#include "driver.h"
#include "schema.h"

// ----------------------------------------------------------------------------------------- buffers

// Bytes on a device, for arrays that this program makes. They may be written to until they become
// part of an array.
struct ardev_buffer;

// Where bytes are, for work on the queue that was named in the call.
struct ardev_place {
  const void* base;  // an address, or a handle; NULL if there is no buffer
  uint64_t offset;   // bytes into the handle; 0 where there are addresses
  // The size as far as it is known without asking the device. For an array that came through a C
  // struct this is at least what its elements need; -1 if only the device knows.
  int64_t size;
};

// Memory of the queue's device, for work on that queue. With NULL, memory of the host.
ARDEV_CHECK int ardev_buffer_allocate(const struct ardev_queue* ARDEV_NULLABLE queue, uint64_t size,
                                      struct ardev_buffer** out, struct ardev_error* ARDEV_NULLABLE error);

// Such memory with a copy of `size` bytes of host memory, which may be freed after the call. Waits.
ARDEV_CHECK int ardev_buffer_copy(const struct ardev_queue* ARDEV_NULLABLE queue, const void* ARDEV_NULLABLE bytes,
                                  uint64_t size, struct ardev_buffer** out, struct ardev_error* ARDEV_NULLABLE error);

// Makes a buffer of memory that the program has: `size` bytes at an address or in a handle.
// `release` is called after the last use.
ARDEV_CHECK int ardev_buffer_wrap(ArrowDeviceType device_type, int64_t device_id, const void* base, uint64_t size,
                                  void* ARDEV_NULLABLE context, void (*ARDEV_NULLABLE release)(void* context),
                                  struct ardev_buffer** out, struct ardev_error* ARDEV_NULLABLE error);

// Where the bytes are, for work on this queue that writes them, or, with NULL, for the host. EINVAL
// if the buffer is shared, or was never this program's to write. The queue waits until the memory
// is there. The work on the queue has to be submitted before the buffer is freed. A program that
// asks for the place has to write all bytes: by the host, or by work that is submitted to a queue
// that was named here, before the buffer becomes part of an array. A buffer whose place nobody
// asked for cannot be part of an array.
ARDEV_CHECK int ardev_buffer_place(struct ardev_buffer* buffer, const struct ardev_queue* ARDEV_NULLABLE queue,
                                   struct ardev_place* out, struct ardev_error* ARDEV_NULLABLE error);

// A buffer of a part of the same bytes. From now on nobody may write to the bytes. On a device of
// handles, such a buffer becomes part of an array only if the memory is this library's, the device
// has ARDEV_DEVICE_PARTS, and the part begins at a multiple of the device's alignment.
ARDEV_CHECK int ardev_buffer_slice(struct ardev_buffer* buffer, uint64_t offset, uint64_t size,
                                   struct ardev_buffer** out, struct ardev_error* ARDEV_NULLABLE error);
void ardev_buffer_free(struct ardev_buffer* ARDEV_NULLABLE buffer);

// ------------------------------------------------------------------------------------------ arrays

// An array on a device: immutable, ready now or after an event. A record batch is an array of
// structs.
struct ardev_array;

// Takes an array over, and checks everything that can be checked in host memory. A mistake is
// EINVAL, with the place in the tree.
ARDEV_CHECK int ardev_array_import(struct ArrowDeviceArray* c_array, const struct ardev_schema* schema,
                                   struct ardev_array** out, struct ardev_error* ARDEV_NULLABLE error);
ARDEV_CHECK int ardev_array_import_host(struct ArrowArray* c_array, const struct ardev_schema* schema,
                                        struct ardev_array** out, struct ardev_error* ARDEV_NULLABLE error);

// Checks a struct and leaves it as it is. Without a schema, only counts and pointers are checked.
ARDEV_CHECK int ardev_array_check(const struct ArrowDeviceArray* c_array,
                                  const struct ardev_schema* ARDEV_NULLABLE schema,
                                  struct ardev_error* ARDEV_NULLABLE error);

// The parts of an array that is built. Set members that are not needed to zero. The library takes
// over none of the objects.
struct ardev_parts {
  size_t struct_size;  // rule 6
  const struct ardev_schema* schema;
  int64_t length;
  int64_t offset;
  int64_t null_count;  // -1 if it is not known
  // In the order of the format: first the validity bitmap, NULL if there are no nulls, for all
  // types but null, union and run-end encoded; then offsets, sizes or views where there are any;
  // then the data. (Numbers have 2 of them, text has 3, a struct has 1.) Of view types all data
  // buffers, without the buffer of their sizes.
  struct ardev_buffer* ARDEV_NULLABLE const* ARDEV_NULLABLE buffers;
  size_t n_buffers;
  const struct ardev_array* const* ARDEV_NULLABLE children;
  size_t n_children;
  const struct ardev_array* ARDEV_NULLABLE dictionary;
  // When the data is complete: when this queue has done what was submitted, or when this event has
  // passed, behind which no work writes the buffers. Without either: after what was submitted to
  // the queues that were named to ardev_buffer_place. EXDEV for a queue that does not reach the
  // memory.
  const struct ardev_queue* ARDEV_NULLABLE queue;
  const struct ardev_event* ARDEV_NULLABLE event;
};

ARDEV_CHECK int ardev_array_build(const struct ardev_parts* parts, struct ardev_array** out,
                                  struct ardev_error* ARDEV_NULLABLE error);

// An array of values that lie one after the other as C has them: numbers, dates, times, decimals,
// fixed-size binary; of booleans one byte each, 0 for false. `is_there` has a byte for each value,
// 0 for a null; without it there are no nulls. Everything is copied: to the device of the queue, or
// to host memory for NULL. Waits.
ARDEV_CHECK int ardev_array_from_values(const struct ardev_schema* schema, const void* ARDEV_NULLABLE values,
                                        const uint8_t* ARDEV_NULLABLE is_there, size_t length,
                                        const struct ardev_queue* ARDEV_NULLABLE queue, struct ardev_array** out,
                                        struct ardev_error* ARDEV_NULLABLE error);
// The same for text and binary of any layout. A value whose `data` is NULL is a null.
ARDEV_CHECK int ardev_array_from_bytes(const struct ardev_schema* schema,
                                       const struct ardev_bytes* ARDEV_NULLABLE values, size_t length,
                                       const struct ardev_queue* ARDEV_NULLABLE queue, struct ardev_array** out,
                                       struct ardev_error* ARDEV_NULLABLE error);

// Writes a struct for a consumer. The array's event is handed on unchanged. Columns that wait for
// different events need a `queue`, which waits for all of them and records one event; EAGAIN
// without a queue.
ARDEV_CHECK int ardev_array_export(const struct ardev_array* array, const struct ardev_queue* ARDEV_NULLABLE queue,
                                   struct ArrowDeviceArray* out, struct ardev_error* ARDEV_NULLABLE error);

// The same without an event, for consumers that ignore events: waits for the data first.
ARDEV_CHECK int ardev_array_export_settled(const struct ardev_array* array, struct ArrowDeviceArray* out,
                                           struct ardev_error* ARDEV_NULLABLE error);

// The same for consumers of plain arrays in host memory. ENOSYS for an array of a device.
ARDEV_CHECK int ardev_array_export_host(const struct ardev_array* array, struct ArrowArray* out,
                                        struct ardev_error* ARDEV_NULLABLE error);

struct ardev_array_info {
  size_t struct_size;  // rule 6
  int64_t length;
  int64_t offset;
  int64_t null_count;  // -1 if it is not known
  size_t n_buffers;    // of the array itself, as are the children
  size_t n_children;
  size_t n_buffers_in_all;  // of everything below it too
  size_t n_events;          // how many events stand between now and the data; 0 if it is ready
  int64_t device_id;
  ArrowDeviceType device_type;
  int32_t has_dictionary;
};

ARDEV_CHECK int ardev_array_inspect(const struct ardev_array* array, struct ardev_array_info* out,
                                    struct ardev_error* ARDEV_NULLABLE error);
ARDEV_CHECK int ardev_array_schema(const struct ardev_array* array, struct ardev_schema** out,
                                   struct ardev_error* ARDEV_NULLABLE error);
// A text with all that is known without reading the data, line by line.
ARDEV_CHECK int ardev_array_describe(const struct ardev_array* array, char* ARDEV_NULLABLE text, size_t capacity,
                                     size_t* size, struct ardev_error* ARDEV_NULLABLE error);

// A child or the dictionary as it is: the offset and length of the array above do not apply to it.
ARDEV_CHECK int ardev_array_child(const struct ardev_array* array, size_t index, struct ardev_array** out,
                                  struct ardev_error* ARDEV_NULLABLE error);
ARDEV_CHECK int ardev_array_dictionary(const struct ardev_array* array, struct ardev_array** out,
                                       struct ardev_error* ARDEV_NULLABLE error);
// A column of a record batch, with the batch's offset and length.
ARDEV_CHECK int ardev_array_column(const struct ardev_array* array, size_t index, struct ardev_array** out,
                                   struct ardev_error* ARDEV_NULLABLE error);
// `length` elements from `offset` on. Copies nothing.
ARDEV_CHECK int ardev_array_slice(const struct ardev_array* array, int64_t offset, int64_t length,
                                  struct ardev_array** out, struct ardev_error* ARDEV_NULLABLE error);

ARDEV_CHECK int ardev_array_is_ready(const struct ardev_array* array, bool* out,
                                     struct ardev_error* ARDEV_NULLABLE error);
// Waits until the data is ready. If the array came with an event, its device has to be open in this
// process.
ARDEV_CHECK int ardev_array_wait(const struct ardev_array* array, struct ardev_error* ARDEV_NULLABLE error);

// Reads all data and checks what the format demands of offsets, keys, text and the rest. Waits.
// Memory that the host cannot read needs a queue, by which all data is copied to the host first.
ARDEV_CHECK int ardev_array_validate(const struct ardev_array* array, const struct ardev_queue* ARDEV_NULLABLE queue,
                                     struct ardev_error* ARDEV_NULLABLE error);

// The true size of every buffer of the tree: the array's own, then those of each child in turn with
// all below it, then the dictionary's. The last offsets that are needed are read on the queue with
// one copy and one wait. Writes at most `capacity` sizes, and the number of all buffers to `count`.
ARDEV_CHECK int ardev_array_buffer_sizes(const struct ardev_array* array,
                                         const struct ardev_queue* ARDEV_NULLABLE queue, uint64_t* ARDEV_NULLABLE sizes,
                                         size_t capacity, size_t* count, struct ardev_error* ARDEV_NULLABLE error);

struct ardev_copy_options {
  size_t struct_size;  // rule 6
  uint64_t alignment;  // of every buffer in the result; 0 for the usual
  uint32_t flags;      // ARDEV_COPY_...
  // Reads the source, if it has to be read to the host.
  const struct ardev_queue* ARDEV_NULLABLE through;
};

#define ARDEV_COPY_SEPARATE 1  // every buffer gets an allocation of its own
#define ARDEV_COPY_WHOLE 2     // also what lies before and behind the elements of a slice
#define ARDEV_COPY_ALWAYS 4    // also what lies there already

// Copies to the device of the queue, in its order; with NULL to the host, which waits. Data that is
// there already is shared. A copy between devices without a direct path waits.
ARDEV_CHECK int ardev_array_copy(const struct ardev_array* array, const struct ardev_queue* ARDEV_NULLABLE queue,
                                 const struct ardev_copy_options* ARDEV_NULLABLE options, struct ardev_array** out,
                                 struct ardev_error* ARDEV_NULLABLE error);

void ardev_array_free(struct ardev_array* ARDEV_NULLABLE array);

// ---- access to the data

// A view is the only way to the address of data. Opening it for a queue makes the queue wait for
// the array. Freeing it says that all work on the data is submitted; the data stays until the queue
// has done that work, also if the array is freed. Opening it for the host waits until the data is
// ready; the addresses are valid until the view is freed. ENOSYS for memory that the host cannot
// read: copy the array.
struct ardev_view;

ARDEV_CHECK int ardev_view_open(const struct ardev_array* array, const struct ardev_queue* ARDEV_NULLABLE queue,
                                struct ardev_view** out, struct ardev_error* ARDEV_NULLABLE error);
// A buffer of the array itself, from its beginning: the caller adds the array's offset. In a view
// for the host, the size is that of the elements up to the array's end.
ARDEV_CHECK int ardev_view_buffer(const struct ardev_view* view, size_t index, struct ardev_place* out,
                                  struct ardev_error* ARDEV_NULLABLE error);
void ardev_view_free(struct ardev_view* ARDEV_NULLABLE view);

// ----------------------------------------------------------------------------------------- streams

// Arrays of one type on one type of device, one after the other. Each can be taken out once. After
// the end and after an error there is nothing more. A program can ask for the schema and the type
// of device at any time, also in the callbacks of the stream's own source, and while another thread
// waits for an array. Calls that take arrays out take turns.
struct ardev_stream;

ARDEV_CHECK int ardev_stream_import(struct ArrowDeviceArrayStream* c_stream, struct ardev_stream** out,
                                    struct ardev_error* ARDEV_NULLABLE error);
ARDEV_CHECK int ardev_stream_import_host(struct ArrowArrayStream* c_stream, struct ardev_stream** out,
                                         struct ardev_error* ARDEV_NULLABLE error);

// Where arrays come from.
struct ardev_source {
  size_t struct_size;  // rule 6
  void* ARDEV_NULLABLE context;
  // Writes the next array, which then belongs to the stream, or NULL at the end. Returns 0 or an
  // errno value. Two calls never overlap. May write to `error->message`.
  int (*next)(void* context, struct ardev_array** out, struct ardev_error* error);
  void (*ARDEV_NULLABLE release)(void* context);
};

ARDEV_CHECK int ardev_stream_new(const struct ardev_schema* schema, ArrowDeviceType device_type,
                                 const struct ardev_source* source, struct ardev_stream** out,
                                 struct ardev_error* ARDEV_NULLABLE error);

ARDEV_CHECK int ardev_stream_schema(const struct ardev_stream* stream, struct ardev_schema** out,
                                    struct ardev_error* ARDEV_NULLABLE error);
ARDEV_CHECK int ardev_stream_device_type(const struct ardev_stream* stream, ArrowDeviceType* out,
                                         struct ardev_error* ARDEV_NULLABLE error);
// The next array, NULL at the end. May wait for the producer.
ARDEV_CHECK int ardev_stream_next(const struct ardev_stream* stream, struct ardev_array** out,
                                  struct ardev_error* ARDEV_NULLABLE error);

// Exports the arrays that are left. The stream is then empty, and further calls with it are EINVAL;
// it still has to be freed. The queue is as for ardev_array_export.
ARDEV_CHECK int ardev_stream_export(const struct ardev_stream* stream, const struct ardev_queue* ARDEV_NULLABLE queue,
                                    struct ArrowDeviceArrayStream* out, struct ardev_error* ARDEV_NULLABLE error);
ARDEV_CHECK int ardev_stream_export_settled(const struct ardev_stream* stream, struct ArrowDeviceArrayStream* out,
                                            struct ardev_error* ARDEV_NULLABLE error);
ARDEV_CHECK int ardev_stream_export_host(const struct ardev_stream* stream, struct ArrowArrayStream* out,
                                         struct ardev_error* ARDEV_NULLABLE error);

// A stream that an asynchronous producer fills. Give `handler` to the producer, which releases the
// handler, or call its `release` if there is no producer after all. The stream requests at most
// `window` arrays ahead of those taken out. All its functions wait for the producer, those for the
// schema and the type of device only until the producer has told them. Freeing the stream cancels.
ARDEV_CHECK int ardev_stream_from_async(size_t window, struct ArrowAsyncDeviceStreamHandler** handler,
                                        struct ardev_stream** out, struct ardev_error* ARDEV_NULLABLE error);

// Sends the arrays that are left to the handler of an asynchronous consumer, as the consumer
// requests them. Waits until the stream ends or the consumer cancels (ECANCELED), so call it on a
// thread of its own. The handler is released, whatever the outcome.
ARDEV_CHECK int ardev_stream_drive(const struct ardev_stream* stream, struct ArrowAsyncDeviceStreamHandler* handler,
                                   struct ardev_error* ARDEV_NULLABLE error);
void ardev_stream_free(struct ardev_stream* ARDEV_NULLABLE stream);

#include "share.h"

// ------------------------------------------------------------------------------------------ DLPack

// Numbers of one type in any number of dimensions.
struct ardev_tensor;

#define ARDEV_TENSOR_FROZEN 1  // nobody writes to the memory, though the struct does not say so

// Takes a tensor over; the deleter is its release callback. `queue` is the queue that the producer
// was told of: the data is ready in its order. With NULL, the producer has waited itself.
ARDEV_CHECK int ardev_tensor_import(struct DLManagedTensorVersioned* c_tensor,
                                    const struct ardev_queue* ARDEV_NULLABLE queue, uint32_t flags,
                                    struct ardev_tensor** out, struct ardev_error* ARDEV_NULLABLE error);
ARDEV_CHECK int ardev_tensor_import_legacy(struct DLManagedTensor* c_tensor,
                                           const struct ardev_queue* ARDEV_NULLABLE queue, uint32_t flags,
                                           struct ardev_tensor** out, struct ardev_error* ARDEV_NULLABLE error);

#define ARDEV_COPYING_NEVER 0      // share, or ENOSYS
#define ARDEV_COPYING_IF_NEEDED 1  // share where possible
#define ARDEV_COPYING_ALWAYS 2     // so that nobody else has the memory

// Hands a tensor to a consumer, who calls the deleter of `out` once all work on the tensor is
// submitted. The consumer's `queue` is made to wait for the data, and the memory is released behind
// the queue, which has to stay open until the deleter has returned. Without a queue the host waits
// for the data. The memory is then released behind the default stream of the device (CUDA, ROCm);
// on other devices the call of the deleter says that the work is done. The older form cannot say
// that memory is read-only, and needs a copy of such memory.
ARDEV_CHECK int ardev_tensor_export(const struct ardev_tensor* tensor, const struct ardev_queue* ARDEV_NULLABLE queue,
                                    int32_t copying, struct DLManagedTensorVersioned** out,
                                    struct ardev_error* ARDEV_NULLABLE error);
ARDEV_CHECK int ardev_tensor_export_legacy(const struct ardev_tensor* tensor,
                                           const struct ardev_queue* ARDEV_NULLABLE queue, int32_t copying,
                                           struct DLManagedTensor** out, struct ardev_error* ARDEV_NULLABLE error);

#define ARDEV_CONVERT_NULLS_TO_NAN 1  // nulls, which are an error otherwise, become "not a number"
// Dates, times, keys of dictionaries become the integers that they are.
#define ARDEV_CONVERT_AS_INTEGERS 2
#define ARDEV_CONVERT_TRUST_BOOLS 4   // bytes of arrow.bool8 are 0 or 1, without a look
#define ARDEV_CONVERT_PACK_BOOLS 8    // a tensor of booleans becomes bits
// Several dimensions become fixed-size lists, not arrow.fixed_shape_tensor.
#define ARDEV_CONVERT_AS_LISTS 16

struct ardev_conversion {
  size_t struct_size;  // rule 6
  int32_t copying;  // ARDEV_COPYING_...
  uint32_t flags;   // ARDEV_CONVERT_...
  const struct ardev_queue* ARDEV_NULLABLE queue;  // for copies; one is opened where none is named
};

// An array of numbers, or a record batch of such columns, as a tensor; and a tensor as an array.
// Without `conversion` the result shares the memory, or the call is an error. Waits where nulls may
// have to be replaced, and where bits become bytes or bytes become bits.
ARDEV_CHECK int ardev_tensor_from_array(const struct ardev_array* array,
                                        const struct ardev_conversion* ARDEV_NULLABLE conversion,
                                        struct ardev_tensor** out, struct ardev_error* ARDEV_NULLABLE error);
ARDEV_CHECK int ardev_array_from_tensor(const struct ardev_tensor* tensor,
                                        const struct ardev_conversion* ARDEV_NULLABLE conversion,
                                        struct ardev_array** out, struct ardev_error* ARDEV_NULLABLE error);

struct ardev_tensor_info {
  size_t struct_size;  // rule 6
  DLDataType dtype;
  int32_t ndim;
  const int64_t* shape;    // valid as long as the tensor object,
  const int64_t* strides;  // in elements, as is this
  int64_t device_id;
  ArrowDeviceType device_type;
  int32_t is_frozen;  // nobody writes to the memory
};

ARDEV_CHECK int ardev_tensor_inspect(const struct ardev_tensor* tensor, struct ardev_tensor_info* out,
                                     struct ardev_error* ARDEV_NULLABLE error);
void ardev_tensor_free(struct ardev_tensor* ARDEV_NULLABLE tensor);

// ----------------------------------------------------------------------------------------- release

// Memory that a queue still uses is held back, and a later call of this library releases it. The
// functions below are for a program that makes no more such calls, or is about to unload a library.

// Releases what queues have passed, and returns the number of released things. Never waits.
size_t ardev_release_finished(void);
// Waits until nothing is held back. ETIMEDOUT if something still is when the time is over.
ARDEV_CHECK int ardev_wait_until_released(int64_t timeout, struct ardev_error* ARDEV_NULLABLE error);
// How many things are held back.
size_t ardev_held_back(void);
// How many things this process will never release: their release panicked, or a queue of the parent
// process used them before a fork.
size_t ardev_abandoned(void);
// How long an allocation that finds no memory waits for memory that is held back: 10 seconds, where
// nothing else was set. A negative timeout is no limit.
void ardev_set_allocation_timeout(int64_t timeout);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // ARROW_DEVICE_ARROW_DEVICE_H_
