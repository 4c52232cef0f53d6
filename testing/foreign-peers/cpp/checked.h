/* What a program does with Arrow C++ and a device that the conformance checker lends it
 * (arrow_device/check.h).
 *
 * Each does what the documentation of Arrow C++ has one do. What breaks a rule has a twin beside it
 * that does the same without the function of Arrow C++ that is to blame, and breaks none. What is
 * handed in is taken over as in arrow_cpp.h. */
#ifndef ARROW_DEVICE_FOREIGN_CHECKED_H
#define ARROW_DEVICE_FOREIGN_CHECKED_H

#include <arrow_device/check.h>

#include "arrow_cpp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The checker's device is the software device from now on, in the imports of this library and in
 * all others of Arrow C++ in this process; NULL: there is none. Pinned memory of CUDA devices is
 * taken for what the host reads in place, with or without one. */
int adf_cpp_use_checked(const struct ArrowDeviceCheckContext* context);

/* Imports an array, and exports it with the event that its buffers have. */
int adf_cpp_forward(struct ArrowSchema* schema, struct ArrowDeviceArray* array, struct ArrowSchema* out_schema,
                    struct ArrowDeviceArray* out_array);
/* The same with a slice of each buffer, from its beginning to its end, in its place. */
int adf_cpp_forward_slices(struct ArrowSchema* schema, struct ArrowDeviceArray* array, struct ArrowSchema* out_schema,
                           struct ArrowDeviceArray* out_array);
/* Imports a batch, and exports it with the event that the batch has. */
int adf_cpp_forward_batch(struct ArrowSchema* schema, struct ArrowDeviceArray* array, struct ArrowSchema* out_schema,
                          struct ArrowDeviceArray* out_array);
/* The same with a view of the batch on the device where it is (ViewOrCopyTo). */
int adf_cpp_forward_view(struct ArrowSchema* schema, struct ArrowDeviceArray* array, struct ArrowSchema* out_schema,
                         struct ArrowDeviceArray* out_array);

/* Makes a batch of the imported buffers that has the event, which they have not; copies it to the
 * host, and validates that. */
int adf_cpp_copy_batch(struct ArrowSchema* schema, struct ArrowDeviceArray* array);
/* The same after waiting for the event of the batch. */
int adf_cpp_wait_and_copy_batch(struct ArrowSchema* schema, struct ArrowDeviceArray* array);

#ifdef __cplusplus
}
#endif

#endif /* ARROW_DEVICE_FOREIGN_CHECKED_H */
