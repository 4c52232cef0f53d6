// What the C programs here share: the functions of the Rust side.
//
// All structs come from <arrow_device/abi.h>, and nothing else does.

#ifndef PEER_H_
#define PEER_H_

#include <arrow_device/abi.h>
#include <stdint.h>

#include "check.h"

#ifdef __cplusplus
extern "C" {
#endif

// What adp_produce makes. All have four rows; the batch has the others as columns and more.
#define ADP_INT32 0
#define ADP_UTF8 1
#define ADP_BATCH 2

// Takes both structs over, reads every byte of an array in host memory, and hands the same array back. Returns an
// errno; after an error the two outputs are untouched and `message` says why.
int adp_exchange(struct ArrowSchema* schema, struct ArrowDeviceArray* array, struct ArrowSchema* out_schema,
                 struct ArrowDeviceArray* out_array, char* message, size_t message_size);

// Takes both structs over and lets go of them. Returns the errno and the message of what is wrong with them. When
// that is the schema, the array is left as it was.
int adp_refuse(struct ArrowSchema* schema, struct ArrowDeviceArray* array, char* message, size_t message_size);

// Hands out an array that was made in Rust.
int adp_produce(int kind, struct ArrowSchema* out_schema, struct ArrowDeviceArray* out_array);

// How many buffers that adp_produce made are not freed yet.
int64_t adp_alive(void);

// Panics inside, and returns the errno that stands for it.
int adp_panic(char* message, size_t message_size);

#ifdef __cplusplus
}
#endif

#endif  // PEER_H_
