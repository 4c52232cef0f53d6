// oneAPI devices of an application that has SYCL queues.
//
// `arrow_device.h` includes this file; a program includes that one.

#ifndef ARROW_DEVICE_ONEAPI_H_
#define ARROW_DEVICE_ONEAPI_H_

#ifndef ARDEV_NULLABLE
#error "include arrow_device/arrow_device.h"
#endif

// All programs and libraries that share data have to use one SYCL runtime, and one sycl::context. A
// queue that was made without a context has the default context of its device, as the devices of
// ardev_device_open have.

// Takes the functions of the application's own SYCL runtime in place of those of dpctl's library,
// for the whole process. `table` is what `arrow_device::sycl::make_functions` of the header
// `arrow_device/sycl.hpp` returns, and `size` is sizeof that struct; the table is copied. This
// function has to be called before a oneAPI device is opened or listed. The same table may be given
// again; EINVAL if the process uses another runtime already, or if the size is another one than
// that of this library's version.
ARDEV_CHECK int ardev_oneapi_use_functions(const void* table, size_t size, struct ardev_error* ARDEV_NULLABLE error);

// Opens the device of the application's queue, a sycl::queue* (DPCTLSyclQueueRef), in the context
// of that queue, for ARDEV_MEMORY_AUTOMATIC, _USM_HOST or _USM_SHARED. The queue need not stay; the
// context is kept as long as it is needed. ardev_queue_adopt makes the same pointer a queue of the
// device. EINVAL for the queue of a part of a device.
ARDEV_CHECK int ardev_device_open_oneapi(void* queue, int32_t memory, struct ardev_device** out,
                                         struct ardev_error* ARDEV_NULLABLE error);

#endif  // ARROW_DEVICE_ONEAPI_H_
