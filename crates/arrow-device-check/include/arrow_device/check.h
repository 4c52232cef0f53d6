/* What a library offers to be checked by `arrow-device check`.
 *
 * An entry point is a function with C linkage and one of the types below, under any name:
 *
 *     arrow-device check --producer ./libmine.so:my_produce
 *     arrow-device check --consumer ./libmine.so:my_consume_stream --kind stream
 *
 * It returns 0, or an errno value where it refuses. It runs in a process of its own, which may
 * crash or hang: that is a finding. It is called several times in that process, one call after
 * another.
 *
 * Nothing here has to be linked to. */
#ifndef ARROW_DEVICE_CHECK_H
#define ARROW_DEVICE_CHECK_H

#include <arrow_device/abi.h>
#include <arrow_device/dlpack_abi.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- --producer: fills what it is given, which holds anything before. After an error nothing is
 * written. The data is the caller's until its release, and the checker reads all of it. Each call
 * gives the same data again. */

/* --kind array (which is what is meant without --kind) */
typedef int (*ArrowDeviceCheckProduceArray)(struct ArrowSchema* schema, struct ArrowDeviceArray* array);
/* --kind stream. A few arrays, and then the end. */
typedef int (*ArrowDeviceCheckProduceStream)(struct ArrowDeviceArrayStream* stream);
/* --kind async. Begins a stream of at least three arrays for this handler and returns without
 * waiting for requests; callbacks may come before it returns, and on any thread. */
typedef int (*ArrowDeviceCheckProduceAsync)(struct ArrowAsyncDeviceStreamHandler* handler);
/* --kind dlpack, and --kind dlpack-legacy for the form before version 1.0 */
typedef int (*ArrowDeviceCheckProduceTensor)(struct DLManagedTensorVersioned** tensor);
typedef int (*ArrowDeviceCheckProduceTensorLegacy)(struct DLManagedTensor** tensor);

/* What fails, where the library also has a function of the name of the entry point with _failing
 * behind it. For --kind stream and --kind async: some arrays, and then an error. For --kind array:
 * it returns an errno value, and has written nothing. */

/* ---- --consumer: takes over what it is given, whatever it returns; is done with it when it
 * returns; and has released everything by then. Only what it returned 0 for did it accept. */

typedef int (*ArrowDeviceCheckConsumeArray)(struct ArrowSchema* schema, struct ArrowDeviceArray* array);
/* Reads to the end. The error of a stream is returned. */
typedef int (*ArrowDeviceCheckConsumeStream)(struct ArrowDeviceArrayStream* stream);
/* Gives the handler of a consumer that reads to the end, on a thread of its own or in the
 * callbacks. */
typedef int (*ArrowDeviceCheckConsumeAsync)(struct ArrowAsyncDeviceStreamHandler** handler);
/* Where the library also has a function of the name of the entry point with _done behind it:
 * whether the consumer that was made last has come to its end. It is asked at any time, and the end
 * has to come once the handler was released. */
typedef int (*ArrowDeviceCheckDone)(void);
typedef int (*ArrowDeviceCheckConsumeTensor)(struct DLManagedTensorVersioned* tensor);
typedef int (*ArrowDeviceCheckConsumeTensorLegacy)(struct DLManagedTensor* tensor);

/* ---- --relay: takes over what it is given, as a consumer does, and hands the same on, as a
 * producer does: the same data at the same addresses. */

typedef int (*ArrowDeviceCheckRelayArray)(struct ArrowSchema* schema, struct ArrowDeviceArray* array,
                                          struct ArrowSchema* out_schema, struct ArrowDeviceArray* out_array);
typedef int (*ArrowDeviceCheckRelayStream)(struct ArrowDeviceArrayStream* stream, struct ArrowDeviceArrayStream* out);

/* ---- The device, for those who want to be checked with data that is not on the host.
 *
 * A library that exports a function
 * `void arrow_device_check_begin(const struct ArrowDeviceCheckContext*)` is given this before its
 * entry points are called. NULL: the run is on the host. Without that function a producer is
 * checked on the host only; a consumer is shown device data all the same, and may refuse it or wait
 * for its event and release it.
 *
 * The device is a piece of software that watches: reads that nothing orders behind the write,
 * memory that is freed in use, and whatever is left behind are findings. */
#define ARROW_DEVICE_CHECK_CONTEXT_VERSION 1

struct ArrowDeviceCheckContext {
  uint32_t version;
  /* The size of this struct. Later versions add members at the end. */
  uint32_t size;
  /* What arrays on it say. */
  ArrowDeviceType device_type;
  /* Whether they carry events. */
  int32_t has_events;
  int64_t device_id;
  /* The functions can be called on any thread; `context` is this struct. They return 0 or an errno
   * value. */
  int (*allocate)(const struct ArrowDeviceCheckContext* context, uint64_t length, void** memory);
  void (*free)(const struct ArrowDeviceCheckContext* context, void* memory, uint64_t length);
  int (*open_queue)(const struct ArrowDeviceCheckContext* context, void** queue);
  void (*close_queue)(const struct ArrowDeviceCheckContext* context, void* queue);
  /* Submit a copy and do not wait. The host's memory is left alone until the queue has passed. */
  int (*copy_to_device)(const struct ArrowDeviceCheckContext* context, void* queue, void* to, const void* from,
                        uint64_t length);
  int (*copy_to_host)(const struct ArrowDeviceCheckContext* context, void* queue, void* to, const void* from,
                      uint64_t length);
  /* Records an event behind what was submitted; what it gives is a `sync_event`, and stays until it
   * is destroyed. */
  int (*record)(const struct ArrowDeviceCheckContext* context, void* queue, void** sync_event);
  void (*destroy_event)(const struct ArrowDeviceCheckContext* context, void* sync_event);
  /* Makes the queue wait for the event of an array. */
  int (*wait)(const struct ArrowDeviceCheckContext* context, void* queue, void* sync_event);
  /* Waits on the host for all that was submitted to the queue. */
  int (*synchronize)(const struct ArrowDeviceCheckContext* context, void* queue);
  /* The checker's own. */
  void* checker;
};

typedef void (*ArrowDeviceCheckBegin)(const struct ArrowDeviceCheckContext* context);

#ifdef __cplusplus
}
#endif

#endif /* ARROW_DEVICE_CHECK_H */
