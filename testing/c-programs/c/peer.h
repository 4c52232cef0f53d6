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

// Takes both structs over, reads every byte of an array in host memory, and hands the same array
// back. Returns an errno; after an error the two outputs are untouched and `message` says why.
int adp_exchange(struct ArrowSchema* schema, struct ArrowDeviceArray* array, struct ArrowSchema* out_schema,
                 struct ArrowDeviceArray* out_array, char* message, size_t message_size);

// Takes both structs over and lets go of them. Returns the errno and the message of what is wrong
// with them. When that is the schema, the array is left as it was.
int adp_refuse(struct ArrowSchema* schema, struct ArrowDeviceArray* array, char* message, size_t message_size);

// Hands out an array that was made in Rust.
int adp_produce(int kind, struct ArrowSchema* out_schema, struct ArrowDeviceArray* out_array);

// Takes a stream over and hands the same on. After an error `out` is untouched; the stream was
// released.
int adp_stream_relay(struct ArrowDeviceArrayStream* stream, struct ArrowDeviceArrayStream* out, char* message,
                     size_t message_size);

// The same, and the one that is handed on is a stream of plain arrays, or the one that is taken
// over.
int adp_stream_as_host(struct ArrowDeviceArrayStream* stream, struct ArrowArrayStream* out, char* message,
                       size_t message_size);
int adp_stream_as_device(struct ArrowArrayStream* stream, struct ArrowDeviceArrayStream* out, char* message,
                         size_t message_size);

// Takes a stream in host memory over, reads every byte of every array, and lets go of it. Returns
// what it ended with, and the number of rows that came before.
int adp_stream_read(struct ArrowDeviceArrayStream* stream, int64_t* rows, char* message, size_t message_size);

// How a stream that adp_stream_produce makes ends.
#define ADP_ENDS 0
#define ADP_FAILS 1
#define ADP_PANICS 2

// Hands out a stream of arrays that are made in Rust when they are asked for.
int adp_stream_produce(int kind, int arrays, int end, struct ArrowDeviceArrayStream* out);

// Makes a handler for an asynchronous producer, which releases it in the end, and what reads the
// stream.
struct AdpReader;
struct AdpReader* adp_async_open(size_t window, struct ArrowAsyncDeviceStreamHandler** handler);

// Waits for the next array, reads every byte of it, and lets go of it. Gives its number of rows, or
// -1 at the end.
int adp_async_next(struct AdpReader* reader, int64_t* rows, char* message, size_t message_size);

// Ends the reading, at any time.
void adp_async_close(struct AdpReader* reader);

// How many buffers that adp_produce and the streams of adp_stream_produce made are not freed yet.
int64_t adp_alive(void);

// Panics inside, and returns the errno that stands for it.
int adp_panic(char* message, size_t message_size);

#ifdef __cplusplus
}
#endif

#endif  // PEER_H_
