/* Streams of Arrow C++ behind a few C functions, as in arrow_cpp.h.
 *
 * The cases of arrow_cpp.h come eight to a type. A stream has the number of its type; its chunks
 * are some of the eight. The last types are those of batches, and their streams are made and read
 * by a RecordBatchReader, all others by a ChunkedArray. A stream that is handed in is taken over,
 * whatever is returned. */
#ifndef ARROW_DEVICE_FOREIGN_STREAMS_H
#define ARROW_DEVICE_FOREIGN_STREAMS_H

#include "arrow_cpp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* With ExportDeviceChunkedArray or ExportDeviceRecordBatchReader. Only batches have events. */
int adf_cpp_export_stream(size_t number, int place, struct ArrowDeviceArrayStream* out);
/* With ExportChunkedArray or ExportRecordBatchReader. */
int adf_cpp_export_plain_stream(size_t number, struct ArrowArrayStream* out);
/* Reads all, copies to the host if needed, validates, and compares with what is exported to that
 * place. */
int adf_cpp_compare_stream(size_t number, int place, struct ArrowDeviceArrayStream* stream);
int adf_cpp_compare_plain_stream(size_t number, struct ArrowArrayStream* stream);

/* Imports as a ChunkedArray, which reads all, and exports that. */
int adf_cpp_relay_chunks(struct ArrowDeviceArrayStream* stream, struct ArrowDeviceArrayStream* out);
/* Imports as a RecordBatchReader, and exports that. */
int adf_cpp_relay_batches(struct ArrowDeviceArrayStream* stream, struct ArrowDeviceArrayStream* out);
/* Reads so many batches at most, releases the stream, and then copies to the host and validates
 * what it has. */
int adf_cpp_read_batches(size_t count, struct ArrowDeviceArrayStream* stream);
/* Reads two streams of arrays to the end and compares their chunks. */
int adf_cpp_equal_streams(struct ArrowDeviceArrayStream* left, struct ArrowDeviceArrayStream* right);

/* Exports a reader of so many batches of numbers that fails then: 0 IOError, 1 NotImplemented, 2
 * OutOfMemory, 3 Invalid, else KeyError. */
int adf_cpp_export_failing_stream(size_t good, int status, struct ArrowDeviceArrayStream* out);

#ifdef __cplusplus
}
#endif

#endif /* ARROW_DEVICE_FOREIGN_STREAMS_H */
