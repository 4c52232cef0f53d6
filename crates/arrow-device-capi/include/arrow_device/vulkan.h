// Vulkan devices that the application made, and their queues and memory.
//
// `arrow_device.h` includes this file; a program includes that one.

#ifndef ARROW_DEVICE_VULKAN_H_
#define ARROW_DEVICE_VULKAN_H_

#ifndef ARDEV_NULLABLE
#error "include arrow_device/arrow_device.h"
#endif

// All programs and libraries that share data have to use one VkDevice, and to take turns at its
// queues.

struct ardev_vulkan_handles {
  size_t struct_size;  // rule 6
  // A PFN_vkGetInstanceProcAddr; NULL for the system's loader's.
  void (*ARDEV_NULLABLE get_instance_proc_addr)(void);
  void* instance;         // a VkInstance of Vulkan 1.2 or later
  void* physical_device;  // the VkPhysicalDevice
  void* device;           // the VkDevice, with the feature timelineSemaphore
};

struct ardev_vulkan_queue {
  size_t struct_size;  // rule 6
  void* handle;     // a VkQueue of a family that can compute or draw
  uint32_t family;  // the index of that family
  void* ARDEV_NULLABLE context;
  // The lock that the library, and everybody else, holds around each submission to the queue. A
  // thread that holds the lock does not call this library. Set both functions, or neither if nobody
  // else submits except by ardev_queue_submit.
  void (*ARDEV_NULLABLE lock)(void* context);
  void (*ARDEV_NULLABLE unlock)(void* context);
};

// Opens a device that the application made, with at least one queue, for ARDEV_MEMORY_AUTOMATIC,
// _HOST_VISIBLE or _DEVICE_ONLY. The handles, the queues and the locks have to stay until `release`
// is called, once nothing of the device is left. A second call with the same handles gives the same
// device, with the locks of the first call.
ARDEV_CHECK int ardev_device_open_vulkan(const struct ardev_vulkan_handles* handles,
                                         const struct ardev_vulkan_queue* queues, size_t n_queues, int32_t memory,
                                         void* ARDEV_NULLABLE context, void (*ARDEV_NULLABLE release)(void* context),
                                         struct ardev_device** out, struct ardev_error* ARDEV_NULLABLE error);

// The handles of an open Vulkan device, whoever made the device, for example to make pipelines on
// it. Valid as long as the device.
ARDEV_CHECK int ardev_device_vulkan_handles(const struct ardev_device* device, struct ardev_vulkan_handles* out,
                                            struct ardev_error* ARDEV_NULLABLE error);

// The family of a queue of a Vulkan device; ardev_queue_handle writes the VkQueue.
ARDEV_CHECK int ardev_queue_vulkan_family(const struct ardev_queue* queue, uint32_t* out,
                                          struct ardev_error* ARDEV_NULLABLE error);

// Makes a buffer of memory of the application's own allocator. Like a buffer of
// ardev_buffer_allocate, it can be written to, and then become part of an array. Nobody else may
// use the memory until `release` is called, after the last use.
ARDEV_CHECK int ardev_buffer_adopt_vulkan(const struct ardev_device* device, const struct ardev_vulkan_binding* binding,
                                          void* ARDEV_NULLABLE context, void (*ARDEV_NULLABLE release)(void* context),
                                          struct ardev_buffer** out, struct ardev_error* ARDEV_NULLABLE error);

#endif  // ARROW_DEVICE_VULKAN_H_
