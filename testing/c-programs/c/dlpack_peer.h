// What the programs about tensors share: the functions of the Rust side.
//
// All structs come from <arrow_device/dlpack_abi.h>, and nothing else does.

#ifndef DLPACK_PEER_H_
#define DLPACK_PEER_H_

#include <arrow_device/dlpack_abi.h>
#include <stdint.h>

#include "check.h"

#ifdef __cplusplus
extern "C" {
#endif

// What adp_dlpack_produce makes.
#define ADP_MATRIX 0  // 2 by 3 float, 0 to 5
#define ADP_TURNED 1  // the same as 3 by 2
#define ADP_NUMBER 2  // 42, as int64
#define ADP_NOTHING 3  // 4 by 0 bytes
#define ADP_COLUMN 4  // 20 and 30, a slice of an int32 column

// Takes the tensor over, reads every element, makes an array of it and hands that back as a tensor.
// Returns an errno; after an error the output is untouched and `message` says why.
int adp_dlpack_exchange(DLManagedTensorVersioned* tensor, DLManagedTensorVersioned** out, char* message,
                        size_t message_size);
int adp_dlpack_exchange_legacy(DLManagedTensor* tensor, DLManagedTensor** out, char* message, size_t message_size);

// Hands out a tensor that was made in Rust, in the newer form or in the older one.
int adp_dlpack_produce(int kind, int versioned, void** out);

// How many buffers that adp_dlpack_produce made are not freed yet.
int64_t adp_alive(void);

#ifdef __cplusplus
}
#endif

#endif  // DLPACK_PEER_H_
