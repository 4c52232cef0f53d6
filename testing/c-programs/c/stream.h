// A stream made in C, of columns as in columns.h. It counts its calls, and notes those that may not
// come.

#ifndef STREAM_H_
#define STREAM_H_

#include "columns.h"

#include <errno.h>

static int64_t streams_made = 0;
static int64_t streams_released = 0;
// Calls after the release, calls after the end, and questions for an error that was none.
static int64_t calls_out_of_place = 0;

typedef void (*Maker)(struct ArrowSchema*, struct ArrowDeviceArray*);

struct StreamBooks {
  Maker make;
  int arrays;
  int given;
  // What comes after the arrays: 0 for the end, or an error.
  int end;
  int is_over;
  int has_failed;
  // The type of device that the last array names.
  ArrowDeviceType last_type;
  // A text that is gone after the next call.
  char text[32];
};

static inline struct StreamBooks* books_of(void* private_data) {
  struct StreamBooks* books = (struct StreamBooks*)private_data;
  memset(books->text, '?', sizeof(books->text) - 1);
  return books;
}

static inline int stream_get_schema(struct ArrowDeviceArrayStream* stream, struct ArrowSchema* out) {
  struct StreamBooks* books = books_of(stream->private_data);
  struct ArrowDeviceArray unused;
  books->has_failed = 0;
  books->make(out, &unused);
  unused.array.release(&unused.array);
  return 0;
}

static inline int stream_get_next(struct ArrowDeviceArrayStream* stream, struct ArrowDeviceArray* out) {
  struct StreamBooks* books = books_of(stream->private_data);
  struct ArrowSchema unused;
  books->has_failed = 0;
  if (books->is_over) ++calls_out_of_place;
  if (books->given < books->arrays) {
    books->make(&unused, out);
    unused.release(&unused);
    if (++books->given == books->arrays) out->device_type = books->last_type;
    return 0;
  }
  books->is_over = 1;
  if (books->end == 0) {
    out->array.release = NULL;
    return 0;
  }
  books->has_failed = 1;
  strcpy(books->text, "the tank is empty");
  return books->end;
}

static inline const char* stream_get_last_error(struct ArrowDeviceArrayStream* stream) {
  struct StreamBooks* books = (struct StreamBooks*)stream->private_data;
  if (!books->has_failed) ++calls_out_of_place;
  return books->end == EIO ? NULL : books->text;
}

static inline void stream_release(struct ArrowDeviceArrayStream* stream) {
  counted_free(stream->private_data);
  ++streams_released;
  stream->release = NULL;
}

// A stream of so many arrays, and then the end or an error. EIO has no text.
static inline struct StreamBooks* make_stream(struct ArrowDeviceArrayStream* out, Maker make, int arrays, int end) {
  struct StreamBooks* books = (struct StreamBooks*)counted_alloc(sizeof(struct StreamBooks));
  books->make = make;
  books->arrays = arrays;
  books->end = end;
  books->last_type = ARROW_DEVICE_CPU;
  out->device_type = ARROW_DEVICE_CPU;
  out->get_schema = stream_get_schema;
  out->get_next = stream_get_next;
  out->get_last_error = stream_get_last_error;
  out->release = stream_release;
  out->private_data = books;
  ++streams_made;
  return books;
}

// Whether everything that streams made was released, each once, and nobody called what may not be
// called.
static inline int all_streams_are_released(void) {
  return streams_made == streams_released && calls_out_of_place == 0 && everything_is_released();
}

#endif  // STREAM_H_
