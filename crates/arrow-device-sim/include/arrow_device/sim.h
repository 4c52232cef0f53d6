/* The events of software devices (ARROW_DEVICE_EXT_DEV): what ArrowDeviceArray.sync_event points
 * to.
 *
 * A producer and a consumer need nothing in common but this declaration. The table is the
 * producer's and lives until the array that shows it is released.
 *
 *     const struct ArrowDeviceSimEvent* event = array->sync_event;
 *     if (event != NULL && event->magic == ARROW_DEVICE_SIM_EVENT_MAGIC) {
 *       int code = event->wait(event, -1);
 *     } */
#ifndef ARROW_DEVICE_SIM_H
#define ARROW_DEVICE_SIM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The letters ARROWSIM. A table with another value is not an event of a software device. */
#define ARROW_DEVICE_SIM_EVENT_MAGIC UINT64_C(0x4152524f5753494d)

/* The version of this declaration. A later one only adds members at the end. */
#define ARROW_DEVICE_SIM_EVENT_VERSION 1

/* The functions can be called on any thread. They return 0 or an errno value. */
struct ArrowDeviceSimEvent {
  uint64_t magic;
  uint32_t version;
  /* The size of the table in bytes. */
  uint32_t size;
  /* Whether the event has passed: 0 if it has, EAGAIN if it has not. Does not wait. */
  int (*query)(const struct ArrowDeviceSimEvent* event);
  /* Waits on the host until the event has passed, at most so many nanoseconds; a negative number is
   * no limit. 0 if it has passed, ETIMEDOUT if not. */
  int (*wait)(const struct ArrowDeviceSimEvent* event, int64_t nanoseconds);
  /* Makes a queue of the same simulator wait for the event. EXDEV for any other queue: then wait
   * for the event on the host. May be null. */
  int (*queue_wait)(const struct ArrowDeviceSimEvent* event, void* queue);
  /* The producer's own. */
  void* context;
};

#ifdef __cplusplus
}
#endif

#endif /* ARROW_DEVICE_SIM_H */
