// An asynchronous producer: a thread of its own sends arrays of four rows, as many as it was asked
// for, and each is made when the consumer extracts it, on the consumer's thread.
//
// The producer is freed as soon as the handler's release has returned, as the specification allows.

#include "peer.h"
#include "columns.h"

#include <errno.h>
#include <pthread.h>

enum What { SENDS_ALL, FAILS, FAILS_TO_EXTRACT };

struct Producer {
  struct ArrowAsyncProducer shown;
  struct ArrowAsyncDeviceStreamHandler* handler;
  enum What what;
  int64_t total;
  // Everything below is under the lock.
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int64_t credits;
  int cancelled;
  int failed;
};

// What outlives the producer.
struct Counts {
  pthread_mutex_t lock;
  int64_t sent, extracted, discarded, refused;
};
static struct Counts counts = {PTHREAD_MUTEX_INITIALIZER, 0, 0, 0, 0};

static void count(int64_t* which) {
  pthread_mutex_lock(&counts.lock);
  ++*which;
  pthread_mutex_unlock(&counts.lock);
}

// The encoding of ArrowSchema.metadata: one pair.
static const struct {
  int32_t pairs, key_length;
  char key[4];
  int32_t value_length;
  char value[4];
} metadata = {1, 4, {'f', 'r', 'o', 'm'}, 4, {'C', '1', '1', '!'}};

static void producer_request(struct ArrowAsyncProducer* self, int64_t n) {
  struct Producer* producer = (struct Producer*)self->private_data;
  pthread_mutex_lock(&producer->lock);
  if (!producer->cancelled) {
    if (n <= 0) producer->failed = 1;
    else producer->credits += n;
  }
  pthread_cond_signal(&producer->changed);
  pthread_mutex_unlock(&producer->lock);
}

static void producer_cancel(struct ArrowAsyncProducer* self) {
  struct Producer* producer = (struct Producer*)self->private_data;
  pthread_mutex_lock(&producer->lock);
  producer->cancelled = 1;
  pthread_cond_signal(&producer->changed);
  pthread_mutex_unlock(&producer->lock);
}

// A task is a block of its own: it may be extracted when the producer is gone.
struct Task {
  int fails;
};

static int task_extract(struct ArrowAsyncTask* self, struct ArrowDeviceArray* out) {
  struct Task* task = (struct Task*)self->private_data;
  const int fails = task->fails;
  free(task);
  if (out == NULL) {
    count(&counts.discarded);
    return 0;
  }
  count(&counts.extracted);
  if (fails) return EBADMSG;
  struct ArrowSchema schema;
  make_ids(&schema, out);
  schema.release(&schema);
  return 0;
}

// Waits until something may be sent. Returns 0, or 1 where the consumer wants no more, or 2 where
// it asked for nothing.
static int wait_for_credit(struct Producer* producer) {
  pthread_mutex_lock(&producer->lock);
  while (producer->credits == 0 && !producer->cancelled && !producer->failed) {
    pthread_cond_wait(&producer->changed, &producer->lock);
  }
  const int answer = producer->failed ? 2 : producer->cancelled ? 1 : 0;
  if (answer == 0) --producer->credits;
  pthread_mutex_unlock(&producer->lock);
  return answer;
}

static void send_all(struct Producer* producer) {
  struct ArrowAsyncDeviceStreamHandler* handler = producer->handler;
  struct ArrowSchema schema;
  make_schema(&schema, "i", "");
  const int refused = handler->on_schema(handler, &schema);
  if (schema.release != NULL) schema.release(&schema);
  if (refused) {
    count(&counts.refused);
    return;
  }
  for (int64_t number = 0; number < producer->total; ++number) {
    const int answer = wait_for_credit(producer);
    if (answer == 1) return;
    if (answer == 2) {
      handler->on_error(handler, EINVAL, "asked for nothing", NULL);
      return;
    }
    struct Task* task = (struct Task*)malloc(sizeof(struct Task));
    if (task == NULL) abort();
    const int is_last = number == producer->total - 1;
    task->fails = producer->what == FAILS_TO_EXTRACT && is_last;
    struct ArrowAsyncTask shown;
    shown.extract_data = task_extract;
    shown.private_data = task;
    count(&counts.sent);
    if (handler->on_next_task(handler, &shown, (const char*)&metadata) != 0) {
      free(task);
      count(&counts.refused);
      return;
    }
  }
  switch (producer->what) {
    case SENDS_ALL:
      (void)handler->on_next_task(handler, NULL, NULL);
      break;
    case FAILS:
      handler->on_error(handler, ENOSPC, "the tape is at its end", (const char*)&metadata);
      break;
    case FAILS_TO_EXTRACT:
      handler->on_error(handler, EBADMSG, "the last array is damaged", NULL);
      break;
  }
}

static void* producer_main(void* argument) {
  struct Producer* producer = (struct Producer*)argument;
  send_all(producer);
  producer->handler->release(producer->handler);
  pthread_cond_destroy(&producer->changed);
  pthread_mutex_destroy(&producer->lock);
  free(producer);
  return NULL;
}

static pthread_t start(struct ArrowAsyncDeviceStreamHandler* handler, enum What what, int64_t total) {
  struct Producer* producer = (struct Producer*)calloc(1, sizeof(struct Producer));
  if (producer == NULL) abort();
  producer->shown.device_type = ARROW_DEVICE_CPU;
  producer->shown.request = producer_request;
  producer->shown.cancel = producer_cancel;
  producer->shown.additional_metadata = (const char*)&metadata;
  producer->shown.private_data = producer;
  producer->handler = handler;
  producer->what = what;
  producer->total = total;
  pthread_mutex_init(&producer->lock, NULL);
  pthread_cond_init(&producer->changed, NULL);
  handler->producer = &producer->shown;
  pthread_t thread;
  if (pthread_create(&thread, NULL, producer_main, producer) != 0) abort();
  return thread;
}

// What is left when a stream is over.
static void nothing_is_left(void) {
  CHECK(counts.sent == counts.extracted + counts.discarded);
  CHECK(counts.refused == 0);
  CHECK(everything_is_released());
  counts.sent = counts.extracted = counts.discarded = counts.refused = 0;
}

static void all_arrays_arrive(size_t window) {
  struct ArrowAsyncDeviceStreamHandler* handler;
  int64_t rows = 0;
  char message[256] = "";
  section("all arrays arrive, and then the end");
  struct AdpReader* reader = adp_async_open(window, &handler);
  pthread_t thread = start(handler, SENDS_ALL, 20);
  for (int i = 0; i < 20; ++i) {
    CHECK(adp_async_next(reader, &rows, message, sizeof(message)) == 0 && rows == 4);
  }
  CHECK(adp_async_next(reader, &rows, message, sizeof(message)) == 0 && rows == -1);
  CHECK(adp_async_next(reader, &rows, message, sizeof(message)) == 0 && rows == -1);
  adp_async_close(reader);
  pthread_join(thread, NULL);
  CHECK(counts.extracted == 20);
  nothing_is_left();
}

static void an_error_comes_after_the_arrays(void) {
  struct ArrowAsyncDeviceStreamHandler* handler;
  int64_t rows = 0;
  char message[256] = "";
  section("an error comes after the arrays, with its code and text");
  struct AdpReader* reader = adp_async_open(3, &handler);
  pthread_t thread = start(handler, FAILS, 5);
  for (int i = 0; i < 5; ++i) CHECK(adp_async_next(reader, &rows, NULL, 0) == 0 && rows == 4);
  CHECK(adp_async_next(reader, &rows, message, sizeof(message)) == ENOSPC);
  CHECK(strstr(message, "the tape is at its end") != NULL);
  CHECK(adp_async_next(reader, &rows, NULL, 0) == 0 && rows == -1);
  adp_async_close(reader);
  pthread_join(thread, NULL);
  nothing_is_left();
}

static void a_task_that_fails_ends_the_stream(void) {
  struct ArrowAsyncDeviceStreamHandler* handler;
  int64_t rows = 0;
  section("a task that fails ends the stream with its code");
  struct AdpReader* reader = adp_async_open(2, &handler);
  pthread_t thread = start(handler, FAILS_TO_EXTRACT, 3);
  CHECK(adp_async_next(reader, &rows, NULL, 0) == 0 && rows == 4);
  CHECK(adp_async_next(reader, &rows, NULL, 0) == 0 && rows == 4);
  CHECK(adp_async_next(reader, &rows, NULL, 0) == EBADMSG);
  CHECK(adp_async_next(reader, &rows, NULL, 0) == 0 && rows == -1);
  adp_async_close(reader);
  pthread_join(thread, NULL);
  nothing_is_left();
}

static void a_reader_may_be_closed_at_any_time(void) {
  section("a reader may be closed at any time");
  for (int taken = 0; taken < 12; ++taken) {
    struct ArrowAsyncDeviceStreamHandler* handler;
    int64_t rows = 0;
    struct AdpReader* reader = adp_async_open(4, &handler);
    pthread_t thread = start(handler, SENDS_ALL, 10);
    for (int i = 0; i < taken; ++i) CHECK(adp_async_next(reader, &rows, NULL, 0) == 0);
    adp_async_close(reader);
    pthread_join(thread, NULL);
    // A stream that is closed before its schema has come refuses it.
    if (taken == 0) counts.refused = 0;
    nothing_is_left();
  }
}

int main(void) {
  all_arrays_arrive(1);
  all_arrays_arrive(8);
  an_error_comes_after_the_arrays();
  a_task_that_fails_ends_the_stream();
  a_reader_may_be_closed_at_any_time();
  return result();
}
