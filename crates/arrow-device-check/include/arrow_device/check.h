/* The functions that a library offers so that `arrow-device check` can check them.
 *
 * An entry point is a function with C linkage and one of the types below, under any name:
 *
 *     arrow-device check --producer ./libmine.so:my_produce
 *     arrow-device check --consumer ./libmine.so:my_consume_stream --kind stream
 *
 * An entry point returns 0, or an errno value if it refuses. It runs in a process of its own; if
 * that process crashes or hangs, that is a finding. In that process the entry point is called
 * several times, one call after another.
 *
 * The library does not have to link to anything. */
#ifndef ARROW_DEVICE_CHECK_H
#define ARROW_DEVICE_CHECK_H

#include <arrow_device/abi.h>
#include <arrow_device/dlpack_abi.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- --producer: fills the structs that it is given, which may hold any bytes before. If it
 * returns an error, it has written nothing. The data belongs to the caller until the caller
 * releases it, and the checker reads all of it. Each call gives the same data. */

/* --kind array, which is the default */
typedef int (*ArrowDeviceCheckProduceArray)(struct ArrowSchema* schema, struct ArrowDeviceArray* array);
/* --kind stream. The stream has a few arrays, and then its end. */
typedef int (*ArrowDeviceCheckProduceStream)(struct ArrowDeviceArrayStream* stream);
/* --kind async. Begins a stream of at least three arrays for this handler and returns without
 * waiting for requests; callbacks may come before it returns, and on any thread. */
typedef int (*ArrowDeviceCheckProduceAsync)(struct ArrowAsyncDeviceStreamHandler* handler);
/* --kind dlpack, and --kind dlpack-legacy for the form before version 1.0 */
typedef int (*ArrowDeviceCheckProduceTensor)(struct DLManagedTensorVersioned** tensor);
typedef int (*ArrowDeviceCheckProduceTensorLegacy)(struct DLManagedTensor** tensor);

/* A library may also have a function of the same type that fails, with the name of the entry point
 * and _failing behind it. With --kind stream and --kind async, it gives some arrays, and then an
 * error. With --kind array, it returns an errno value and writes nothing. */

/* ---- --consumer: takes over the structs that it is given, whatever it returns. When it returns,
 * it has finished with the data and has released everything. With 0 it says that it has accepted
 * the data. */

typedef int (*ArrowDeviceCheckConsumeArray)(struct ArrowSchema* schema, struct ArrowDeviceArray* array);
/* Reads the stream to its end. If the stream fails, returns the error of the stream. */
typedef int (*ArrowDeviceCheckConsumeStream)(struct ArrowDeviceArrayStream* stream);
/* Writes the handler of a consumer that reads to the end, on a thread of its own or in the
 * callbacks. */
typedef int (*ArrowDeviceCheckConsumeAsync)(struct ArrowAsyncDeviceStreamHandler** handler);
/* A library may also have this function, with the name of the entry point and _done behind it. It
 * tells whether the consumer that was made last has come to its end. The checker may call it at any
 * time, and the end has to come once the handler was released. */
typedef int (*ArrowDeviceCheckDone)(void);
typedef int (*ArrowDeviceCheckConsumeTensor)(struct DLManagedTensorVersioned* tensor);
typedef int (*ArrowDeviceCheckConsumeTensorLegacy)(struct DLManagedTensor* tensor);

/* ---- --relay: takes structs over, as a consumer does, and fills structs with the same data at the
 * same addresses, as a producer does. */

typedef int (*ArrowDeviceCheckRelayArray)(struct ArrowSchema* schema, struct ArrowDeviceArray* array,
                                          struct ArrowSchema* out_schema, struct ArrowDeviceArray* out_array);
typedef int (*ArrowDeviceCheckRelayStream)(struct ArrowDeviceArrayStream* stream, struct ArrowDeviceArrayStream* out);

/* ---- The device, for functions that are to be checked with data that is not on the host.
 *
 * A library that exports a function
 * `void arrow_device_check_begin(const struct ArrowDeviceCheckContext*)` is given this struct
 * before its entry points are called, or NULL in a run on the host. Without that function a
 * producer is checked on the host only. A consumer gets device data all the same, and may refuse
 * the data, or wait for its event and release it.
 *
 * The device is software that watches every use of its memory. Reads that nothing orders behind the
 * write, memory that is freed in use, and objects that are never freed are findings. */
#define ARROW_DEVICE_CHECK_CONTEXT_VERSION 1

struct ArrowDeviceCheckContext {
  uint32_t version;
  /* The size of this struct. Later versions add members at the end. */
  uint32_t size;
  /* The device_type of arrays on the device. */
  ArrowDeviceType device_type;
  /* Whether arrays on the device have events. */
  int32_t has_events;
  int64_t device_id;
  /* The functions can be called on any thread; `context` is this struct. They return 0 or an errno
   * value. */
  int (*allocate)(const struct ArrowDeviceCheckContext* context, uint64_t length, void** memory);
  void (*free)(const struct ArrowDeviceCheckContext* context, void* memory, uint64_t length);
  int (*open_queue)(const struct ArrowDeviceCheckContext* context, void** queue);
  void (*close_queue)(const struct ArrowDeviceCheckContext* context, void* queue);
  /* Submit a copy and do not wait. Leave the host memory alone until the queue has passed the
   * copy. */
  int (*copy_to_device)(const struct ArrowDeviceCheckContext* context, void* queue, void* to, const void* from,
                        uint64_t length);
  int (*copy_to_host)(const struct ArrowDeviceCheckContext* context, void* queue, void* to, const void* from,
                      uint64_t length);
  /* Records an event behind all work that was submitted to the queue. The result is a `sync_event`,
   * and stays valid until it is destroyed. */
  int (*record)(const struct ArrowDeviceCheckContext* context, void* queue, void** sync_event);
  void (*destroy_event)(const struct ArrowDeviceCheckContext* context, void* sync_event);
  /* Makes the queue wait for the event of an array. */
  int (*wait)(const struct ArrowDeviceCheckContext* context, void* queue, void* sync_event);
  /* Waits on the host for all work that was submitted to the queue. */
  int (*synchronize)(const struct ArrowDeviceCheckContext* context, void* queue);
  /* The checker's own. */
  void* checker;
};

typedef void (*ArrowDeviceCheckBegin)(const struct ArrowDeviceCheckContext* context);

#ifdef __cplusplus
}
#endif

#endif /* ARROW_DEVICE_CHECK_H */
