/* Asynchronous streams of Arrow C++ behind a few C functions, as in arrow_cpp.h. Streams are
 * numbered as in streams.h, and are those of batches. What has to wait does so for a number of
 * seconds at most, and then says "timed out". */
#ifndef ARROW_DEVICE_FOREIGN_ASYNC_H
#define ARROW_DEVICE_FOREIGN_ASYNC_H

#include "arrow_cpp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A consumer: what CreateAsyncDeviceStreamHandler made. */
struct AdfReader;

/* Asks for `window` batches ahead. */
int adf_reader_open(uint64_t window, struct AdfReader** out);
/* Stays until adf_reader_free. */
struct ArrowAsyncDeviceStreamHandler* adf_reader_handler(struct AdfReader* reader);
/* Reads to the end, and compares with the batches of that stream in that place. */
int adf_reader_compare(struct AdfReader* reader, size_t number, int place, double seconds);
/* Reads so many batches, or to the end, and validates them. Says how many there were. The text of
 * an error that the producer reported begins with its code. */
int adf_reader_read(struct AdfReader* reader, size_t count, double seconds, size_t* read);
/* Drops all but the handler: the generator and the executor. */
int adf_reader_drop(struct AdfReader* reader);
/* The handler too, which must be released. */
void adf_reader_free(struct AdfReader* reader);

/* A producer: gives the stream to a handler with ExportAsyncRecordBatchReader, on this thread,
 * until it is over. After `good` batches it fails with an IOError. */
int adf_produce(size_t number, int place, size_t good, double seconds, struct ArrowAsyncDeviceStreamHandler* handler);
/* The same for one batch that cannot be exported. */
int adf_produce_broken(double seconds, struct ArrowAsyncDeviceStreamHandler* handler);
/* The same for a stream without batches. */
int adf_produce_nothing(double seconds, struct ArrowAsyncDeviceStreamHandler* handler);

#ifdef __cplusplus
}
#endif

#endif /* ARROW_DEVICE_FOREIGN_ASYNC_H */
