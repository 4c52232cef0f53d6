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

/* ---- The library sim_c: a software device for C programs.
 *
 * Functions that return int return 0 or an errno value; after an error, arrow_device_sim_last_error
 * returns its text. All functions can be called on any thread. Use a handle only with the simulator
 * that returned it.
 */
struct ArrowDeviceSim;

/* Opens a simulator of one discrete device. The same seed gives the same run. */
int arrow_device_sim_open(uint64_t seed, struct ArrowDeviceSim** out);

/* Ends a simulator. EINVAL if the simulator saw mistakes, leaks included, that
 * arrow_device_sim_mistakes has not reported: the text of the error explains them. */
int arrow_device_sim_close(struct ArrowDeviceSim* sim);

/* The device_id of arrays on the simulator. Their device_type is 12, ARROW_DEVICE_EXT_DEV. */
int64_t arrow_device_sim_device_id(const struct ArrowDeviceSim* sim);

/* How many mistakes the simulator saw since the last call of this function. The text of
 * arrow_device_sim_last_error explains them. */
uint64_t arrow_device_sim_mistakes(struct ArrowDeviceSim* sim);

/* Memory whose addresses the host cannot read. */
int arrow_device_sim_allocate(struct ArrowDeviceSim* sim, uint64_t length, void** out);
void arrow_device_sim_free(struct ArrowDeviceSim* sim, void* memory, uint64_t length);

int arrow_device_sim_open_queue(struct ArrowDeviceSim* sim, void** out);
void arrow_device_sim_close_queue(struct ArrowDeviceSim* sim, void* queue);

/* Submits a copy. Do not use the host memory until the queue has passed the copy. */
int arrow_device_sim_copy_to_device(struct ArrowDeviceSim* sim, void* queue, void* to, const void* from,
                                    uint64_t length);
int arrow_device_sim_copy_to_host(struct ArrowDeviceSim* sim, void* queue, void* to, const void* from, uint64_t length);

/* Makes an event and records it behind all work that was submitted to the queue. sync_event points
 * to the event. */
int arrow_device_sim_record(struct ArrowDeviceSim* sim, void* queue, struct ArrowDeviceSimEvent** out);
void arrow_device_sim_destroy_event(struct ArrowDeviceSim* sim, struct ArrowDeviceSimEvent* event);

/* Makes the queue wait for the event. */
int arrow_device_sim_wait(struct ArrowDeviceSim* sim, void* queue, const struct ArrowDeviceSimEvent* event);

/* Waits on the host until the queue has finished everything. */
int arrow_device_sim_synchronize(struct ArrowDeviceSim* sim, void* queue);

/* The text of the last error on this thread. Never null; valid until the next call on this
 * thread. */
const char* arrow_device_sim_last_error(void);

#ifdef __cplusplus
}
#endif

#endif /* ARROW_DEVICE_SIM_H */
