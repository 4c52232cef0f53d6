/* The library sim_c: a software device for C programs.
 *
 * Functions that return int return 0 or an errno value; after an error, arrow_device_sim_last_error
 * returns its text. All functions can be called on any thread. Use a handle only with the simulator
 * that returned it. */
#ifndef SIM_C_H
#define SIM_C_H

#include <arrow_device/sim.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

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

#endif /* SIM_C_H */
