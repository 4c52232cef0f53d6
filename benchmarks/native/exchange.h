/* What an implementation in C or C++ does with arrays, as the benchmarks call it. Functions that
 * return an int return 0 where they succeeded. A place is memory of the caller's, which stays where
 * it is: 512 bytes, of which 0 is nothing. */
#pragma once

#include <stdint.h>

#include <arrow_device/abi.h>

#define EXCHANGE_PLACE 512

#ifdef __cplusplus
extern "C" {
#endif

/* Takes an array or a batch over, in the form that the implementation has it in. Never freed. */
void* exchange_hold(struct ArrowSchema* schema, struct ArrowDeviceArray* array, int is_batch);
int exchange_export(const void* held, struct ArrowDeviceArray* out);
int exchange_export_schema(const void* held, struct ArrowSchema* out);

/* A schema in the place, and no schema there any more. */
int exchange_know(struct ArrowSchema* schema, int is_batch, void* place);
void exchange_forget(void* place);

/* An array or a batch in the place, and none there any more. The array's struct stays where it is
 * until then. */
int exchange_import(void* known, struct ArrowDeviceArray* array, void* place);
int exchange_import_both(struct ArrowSchema* schema, struct ArrowDeviceArray* array, int is_batch, void* place);
void exchange_clear(void* place);

/* The length of a column of a batch in the place, got at as a user gets at it. */
int64_t exchange_column(const void* place, int64_t column);
/* A number of a column of numbers, null as -1. */
int64_t exchange_number(const void* place, int64_t column, int64_t row);

/* 0 where everything about the array is valid. Both are released. */
int exchange_validate(struct ArrowSchema* schema, struct ArrowDeviceArray* array, int is_batch);

#ifdef __cplusplus
}
#endif
