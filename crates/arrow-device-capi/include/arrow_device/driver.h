// A device that the program brings, as a table of functions that this library calls.
//
// `arrow_device.h` includes this file; a program includes that one.

#ifndef ARROW_DEVICE_DRIVER_H_
#define ARROW_DEVICE_DRIVER_H_

#ifndef ARDEV_NULLABLE
#error "include arrow_device/arrow_device.h"
#endif

// A place in a device's memory.
struct ardev_spot {
  void* base;  // an address or a handle
  uint64_t offset;
};

struct ardev_region {
  struct ardev_spot from;
  struct ardev_spot to;
  uint64_t size;
};

#define ARDEV_ROUTE_FROM_HOST 0  // `from` is host memory
#define ARDEV_ROUTE_TO_HOST 1    // `to` is host memory
#define ARDEV_ROUTE_WITHIN 2     // both are on this device
#define ARDEV_ROUTE_FROM_PEER 3  // `from` is on another device that `reaches` allows

// A device as a table of functions. The functions can be called on any thread, also on several
// threads at once. They return 0 or an errno value: ENOMEM if there is no memory left; ENXIO once
// the device is lost and touches no memory of the process any more, which also ends all waits;
// ENODATA for an event or a queue, from then on always, once work that it stands for has failed and
// is over. A function only submits work, unless its comment says that it waits. The functions do
// not throw, and use no queue, event, memory, array or stream of this library. Callbacks of the
// application that `is_complete`, `is_idle`, `synchronize`, `wait_on_host` and `map` run without a
// lock are excepted. The table chooses the handles of queues, events and memory. An event of NULL
// has passed: a device whose work is done when it is submitted needs no other event. `is_idle` and
// `is_complete` write 0 for no, and any other number for yes. Memory safety relies on these rules:
// docs/safety.md has them in full (DRV-1 to DRV-28).
struct ardev_driver {
  size_t struct_size;  // rule 6
  ArrowDeviceType device_type;
  uint32_t flags;  // ARDEV_DEVICE_...
  // No device of another runtime may be open by this type and id: nobody could tell to which of the
  // two devices the memory of a table belongs, and queues would refuse arrays in it (EXDEV).
  int64_t device_id;
  uint64_t alignment;                // of allocations; at least 64, 0 for that
  // The unit of `copy` in bytes: a power of two, 0 for 1. Places on the device are at multiples of
  // the unit. Sizes may be any, and `copy` rounds them up on the device: the bytes behind a
  // destination up to the next multiple belong to nobody. `allocate` gives whole units.
  uint64_t copy_unit;
  const char* ARDEV_NULLABLE name;   // copied
  // Nothing below is called in a child of fork, nor after the end of the process has begun.
  void* ARDEV_NULLABLE context;
  void (*ARDEV_NULLABLE release)(void* context);

  // Writes memory for work on `queue`, or on any queue if that is NULL. Nobody else uses the
  // memory, and it has at least `size` bytes, which is not 0.
  int (*allocate)(void* context, uint64_t size, void* ARDEV_NULLABLE queue, void** out);
  // Frees memory. All work that uses it has finished.
  void (*free)(void* context, void* memory, uint64_t size);

  int (*open_queue)(void* context, void** out);
  // Closes a queue. Work that was submitted to it still finishes.
  void (*close_queue)(void* context, void* queue);
  // Waits until the queue has finished everything.
  int (*synchronize)(void* context, void* queue);
  int (*is_idle)(void* context, void* queue, int32_t* out);

  // Records a new event behind all work that was submitted to the queue. The event may outlive the
  // queue.
  int (*record)(void* context, void* queue, void** out);
  void (*destroy_event)(void* context, void* event);
  // Makes the queue wait for the event. EXDEV if the queue cannot: then the host waits instead.
  int (*wait)(void* context, void* queue, void* event);
  int (*is_complete)(void* context, void* event, int32_t* out);
  // Waits until the event has passed; ETIMEDOUT if it has not by then.
  int (*wait_on_host)(void* context, void* event, int64_t timeout);

  // Submits copies that do not overlap, as one piece of work. Host memory that they read holds its
  // bytes already and stays until the queue has passed the copies: it may be read at once or later.
  int (*copy)(void* context, void* queue, int32_t route, const struct ardev_region* regions, size_t n_regions);

  // Shows memory to the host, once all work that writes it has finished. With
  // ARDEV_DEVICE_HOST_READABLE.
  int (*ARDEV_NULLABLE map)(void* context, struct ardev_spot spot, uint64_t size, void** out);
  void (*ARDEV_NULLABLE unmap)(void* context, struct ardev_spot spot, uint64_t size, void* address);
  // Writes the event that the `sync_event` of an array of another party stands for. Without this
  // function, that event is what `sync_event` points to, and with ARDEV_DEVICE_EVENT_OBJECTS
  // `sync_event` itself.
  int (*ARDEV_NULLABLE read_event)(void* context, void* sync_event, void** out);
  // Returns 0 if work on this device may touch memory of that other device. Without this function
  // it may not. An answer that is not 0 does not change as long as the device is open.
  int (*ARDEV_NULLABLE reaches)(void* context, ArrowDeviceType device_type, int64_t device_id);
  // Make and free a handle of a part of memory. With ARDEV_DEVICE_PARTS.
  int (*ARDEV_NULLABLE part)(void* context, void* memory, uint64_t offset, uint64_t size, void** out);
  void (*ARDEV_NULLABLE free_part)(void* context, void* part);
};

// Opens a device that this program brings, of any type but ARROW_DEVICE_CPU. The struct `driver` is
// copied. Its `release` is called when the device is closed: after `ardev_device_free`, once none
// of its queues, events, buffers and arrays is left. ardev_device_find finds the device from now
// on.
ARDEV_CHECK int ardev_device_register(const struct ardev_driver* driver, struct ardev_device** out,
                                      struct ardev_error* ARDEV_NULLABLE error);

#endif  // ARROW_DEVICE_DRIVER_H_
