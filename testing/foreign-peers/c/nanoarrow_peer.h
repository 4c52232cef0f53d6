/* nanoarrow behind a few C functions: what the tests in Rust call.
 *
 * They return 0, or an errno value with a text in adf_nano_last_error. What a function takes over
 * it releases. */
#ifndef ARROW_DEVICE_FOREIGN_NANOARROW_H
#define ARROW_DEVICE_FOREIGN_NANOARROW_H

#include <arrow_device/abi.h>

const char* adf_nano_last_error(void);
const char* adf_nano_version(void);

/* Makes a view of the array, validates all of it, and copies it to memory of nanoarrow's own with
 * its device functions. The schema is copied too. */
int adf_nano_copy(struct ArrowSchema* schema, struct ArrowDeviceArray* array, struct ArrowSchema* out_schema,
                  struct ArrowDeviceArray* out_array);
/* Makes a view, validates all of it, and moves the structs on, with the function that moves to a
 * device. */
int adf_nano_move(struct ArrowSchema* schema, struct ArrowDeviceArray* array, struct ArrowSchema* out_schema,
                  struct ArrowDeviceArray* out_array);
/* Builds an array of the type: nulls, then empty elements, as many of each. */
int adf_nano_build(struct ArrowSchema* schema, int64_t count, struct ArrowSchema* out_schema,
                   struct ArrowDeviceArray* out_array);

/* Moves to a device that cannot move. Whatever is returned, out_array is as it was or a good array.
 */
int adf_nano_move_to_other_device(struct ArrowDeviceArray* array, struct ArrowDeviceArray* out_array);
/* Asks for the Metal device. Whether it has one. */
int adf_nano_has_metal(void);

#endif /* ARROW_DEVICE_FOREIGN_NANOARROW_H */
