// An asynchronous producer and its consumer, each on a thread of its own.
//
// The producer makes arrays in a callback and pushes them as they are asked for. The consumer reads
// them with a plain loop. Between the two there is nothing but the C structs of asynchronous
// streams, so either could be another library.
#include <arrow_device/arrow_device.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRAYS 100

static void must(int code, const struct ardev_error* error) {
  if (code != 0) {
    fprintf(stderr, "%s\n", error->message);
    exit(1);
  }
}

struct counter {
  struct ardev_schema* schema;
  int64_t next;
};

// Makes one array of one number. Errors are passed on.
static int next_array(void* context, struct ardev_array** out, struct ardev_error* error) {
  struct counter* counter = (struct counter*)context;
  struct ardev_buffer* buffers[2] = {NULL, NULL};
  struct ardev_parts parts;
  int code;
  *out = NULL;
  if (counter->next == ARRAYS) return 0;
  code = ardev_buffer_copy(NULL, &counter->next, sizeof(counter->next), &buffers[1], error);
  if (code != 0) return code;
  memset(&parts, 0, sizeof(parts));
  parts.struct_size = sizeof(parts);
  parts.schema = counter->schema;
  parts.length = 1;
  parts.buffers = buffers;
  parts.n_buffers = 2;
  code = ardev_array_build(&parts, out, error);
  ardev_buffer_free(buffers[1]);
  counter->next++;
  return code;
}

static void release_counter(void* context) {
  struct counter* counter = (struct counter*)context;
  ardev_schema_free(counter->schema);
  free(counter);
}

// The producer's thread. All it was given is the consumer's handler.
static void* produce(void* handler) {
  struct ardev_error error;
  struct ardev_source source;
  struct ardev_stream* stream;
  struct counter* counter = (struct counter*)calloc(1, sizeof(*counter));
  int code;
  must(ardev_schema_new("l", NULL, 0, NULL, 0, NULL, &counter->schema, &error), &error);
  memset(&source, 0, sizeof(source));
  source.struct_size = sizeof(source);
  source.context = counter;
  source.next = next_array;
  source.release = release_counter;
  must(ardev_stream_new(counter->schema, ARROW_DEVICE_CPU, &source, &stream, &error), &error);
  code = ardev_stream_drive(stream, (struct ArrowAsyncDeviceStreamHandler*)handler, &error);
  if (code != 0 && code != ECANCELED) must(code, &error);
  printf("the producer has %s\n", code == 0 ? "finished" : "been cancelled");
  ardev_stream_free(stream);
  return NULL;
}

// Adds up the numbers of at most so many arrays.
static int64_t consume(int64_t at_most) {
  struct ardev_error error;
  struct ArrowAsyncDeviceStreamHandler* handler;
  struct ardev_stream* stream;
  struct ardev_array* array;
  pthread_t thread;
  int64_t sum = 0;
  // At most four arrays are on the way.
  must(ardev_stream_from_async(4, &handler, &stream, &error), &error);
  if (pthread_create(&thread, NULL, produce, handler) != 0) exit(1);
  for (;;) {
    struct ardev_view* view;
    struct ardev_place place;
    if (at_most-- == 0) break;
    must(ardev_stream_next(stream, &array, &error), &error);
    if (array == NULL) break;
    must(ardev_view_open(array, NULL, &view, &error), &error);
    must(ardev_view_buffer(view, 1, &place, &error), &error);
    sum += *(const int64_t*)place.base;
    ardev_view_free(view);
    ardev_array_free(array);
  }
  // This cancels what is left.
  ardev_stream_free(stream);
  pthread_join(thread, NULL);
  return sum;
}

int main(void) {
  int64_t all = consume(-1), some = consume(10);
  printf("all of them are %d, the first ten %d\n", (int)all, (int)some);
  return all == ARRAYS * (ARRAYS - 1) / 2 && some == 45 ? 0 : 1;
}
