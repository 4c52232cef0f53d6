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

/* The letters ARROWSIM. Whoever finds another value does not have an event of a software device. */
#define ARROW_DEVICE_SIM_EVENT_MAGIC UINT64_C(0x4152524f5753494d)

/* The version of this declaration. A later one only adds members at the end. */
#define ARROW_DEVICE_SIM_EVENT_VERSION 1

/* The functions can be called on any thread. They return 0 or an errno value. */
struct ArrowDeviceSimEvent {
  uint64_t magic;
  uint32_t version;
  /* The size of the table in bytes. */
  uint32_t size;
  /* Whether the event has passed: 0 if so, EAGAIN if not yet. Does not wait. */
  int (*query)(const struct ArrowDeviceSimEvent* event);
  /* Waits on the host until the event has passed, at most so many nanoseconds; a negative number is
   * no limit. 0 if it has passed, ETIMEDOUT if not. */
  int (*wait)(const struct ArrowDeviceSimEvent* event, int64_t nanoseconds);
  /* Makes a queue of the same simulator wait for the event. EXDEV for any other queue: wait on the
   * host for it. May be null. */
  int (*queue_wait)(const struct ArrowDeviceSimEvent* event, void* queue);
  /* The producer's own. */
  void* context;
};

/* ---- The library sim_c: a software device for C programs.
 *
 * Functions that return int return 0 or an errno value; arrow_device_sim_last_error then has the
 * text. All can be called on any thread. Handles are only used with the simulator that gave them.
 */
struct ArrowDeviceSim;

/* Opens a simulator of one discrete device. The same seed gives the same run. */
int arrow_device_sim_open(uint64_t seed, struct ArrowDeviceSim** out);

/* Ends it. EINVAL if it saw mistakes that arrow_device_sim_mistakes has not told, leaks included:
 * the text explains them. */
int arrow_device_sim_close(struct ArrowDeviceSim* sim);

/* The device_id of its arrays. Their device_type is 12, ARROW_DEVICE_EXT_DEV. */
int64_t arrow_device_sim_device_id(const struct ArrowDeviceSim* sim);

/* How many mistakes it saw since the last call of this. The text explains them. */
uint64_t arrow_device_sim_mistakes(struct ArrowDeviceSim* sim);

/* Memory whose addresses the host cannot read. */
int arrow_device_sim_allocate(struct ArrowDeviceSim* sim, uint64_t length, void** out);
void arrow_device_sim_free(struct ArrowDeviceSim* sim, void* memory, uint64_t length);

int arrow_device_sim_open_queue(struct ArrowDeviceSim* sim, void** out);
void arrow_device_sim_close_queue(struct ArrowDeviceSim* sim, void* queue);

/* Submits a copy. Host memory is left alone until the queue has passed it. */
int arrow_device_sim_copy_to_device(struct ArrowDeviceSim* sim, void* queue, void* to, const void* from,
                                    uint64_t length);
int arrow_device_sim_copy_to_host(struct ArrowDeviceSim* sim, void* queue, void* to, const void* from, uint64_t length);

/* Makes an event and records it behind all that was submitted to the queue. It is what sync_event
 * points to. */
int arrow_device_sim_record(struct ArrowDeviceSim* sim, void* queue, struct ArrowDeviceSimEvent** out);
void arrow_device_sim_destroy_event(struct ArrowDeviceSim* sim, struct ArrowDeviceSimEvent* event);

/* Makes the queue wait for the event. */
int arrow_device_sim_wait(struct ArrowDeviceSim* sim, void* queue, const struct ArrowDeviceSimEvent* event);

/* Waits on the host until the queue has finished everything. */
int arrow_device_sim_synchronize(struct ArrowDeviceSim* sim, void* queue);

/* What went wrong in the last call on this thread that said so. Never null; valid until the next
 * call on this thread. */
const char* arrow_device_sim_last_error(void);

#ifdef __cplusplus
}
#endif

#endif /* ARROW_DEVICE_SIM_H */
