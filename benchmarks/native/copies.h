/* Copies of batches on the host by an implementation in C or C++. Functions that return an int
 * return 0 where they succeeded. */
#pragma once

#include <stdint.h>

#include <arrow_device/abi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Takes a batch over. Never freed. Null where it could not. */
void* copies_hold(struct ArrowSchema* schema, struct ArrowDeviceArray* array);
/* Copies it to memory of the implementation's own, and lets go of the copy. */
int copies_copy(void* held);
/* The same, and adds up all numbers of the copy, whose columns are of 64-bit integers. */
int copies_sum(void* held, int64_t* sum);

#ifdef __cplusplus
}
#endif
