// A producer of streams: makes them in C, hands them over, gets them back, and looks at what is
// called and released.

#include "peer.h"
#include "columns.h"
#include "stream.h"
#include "walk.h"

static char message[256];

// Reads a stream that came back: the same arrays, and the schema at any time. Returns what get_next
// ended with.
static int read_back(struct ArrowDeviceArrayStream* stream, int arrays, double sum_of_each) {
  struct ArrowSchema schema;
  struct ArrowDeviceArray array;
  int errno_at_end = 0;
  CHECK(stream->device_type == ARROW_DEVICE_CPU);
  for (int index = 0; index <= arrays; ++index) {
    memset(&schema, 0xAB, sizeof(schema));
    memset(&array, 0xAB, sizeof(array));
    CHECK(stream->get_schema(stream, &schema) == 0);
    errno_at_end = stream->get_next(stream, &array);
    if (index < arrays) {
      CHECK(errno_at_end == 0 && array.array.release != NULL);
      CHECK(array.device_type == ARROW_DEVICE_CPU && array.device_id == -1 && array.sync_event == NULL);
      CHECK(sum_of_all(&schema, &array.array) == sum_of_each);
      array.array.release(&array.array);
    } else {
      CHECK(array.array.release == NULL);
    }
    schema.release(&schema);
  }
  return errno_at_end;
}

static void streams_come_back(void) {
  const Maker makers[] = {make_ids, make_names, make_batch};
  const double sums[] = {SUM_OF_IDS, SUM_OF_NAMES, SUM_OF_BATCH};
  section("streams of each kind of array come back as they went");
  for (int kind = 0; kind < 3; ++kind) {
    for (int arrays = 0; arrays < 4; ++arrays) {
      struct ArrowDeviceArrayStream stream, again;
      struct ArrowDeviceArray array;
      memset(&again, 0xAB, sizeof(again));
      make_stream(&stream, makers[kind], arrays, 0);
      CHECK(adp_stream_relay(&stream, &again, message, sizeof(message)) == 0);
      CHECK(stream.release == NULL);
      CHECK(read_back(&again, arrays, sums[kind]) == 0);
      // The end is the end.
      CHECK(again.get_next(&again, &array) == 0 && array.array.release == NULL);
      again.release(&again);
      CHECK(again.release == NULL);
      CHECK(all_streams_are_released());
    }
  }
}

static void plain_streams_are_streams_on_the_host(void) {
  struct ArrowDeviceArrayStream stream, again;
  struct ArrowArrayStream host;
  section("a stream goes out as one of plain arrays and comes back");
  make_stream(&stream, make_batch, 3, ENOMEM);
  CHECK(adp_stream_as_host(&stream, &host, message, sizeof(message)) == 0);
  CHECK(adp_stream_as_device(&host, &again, message, sizeof(message)) == 0);
  CHECK(stream.release == NULL && host.release == NULL);
  CHECK(read_back(&again, 3, SUM_OF_BATCH) == ENOMEM);
  again.release(&again);
  CHECK(all_streams_are_released());

  make_stream(&stream, make_ids, 1, 0);
  stream.device_type = ARROW_DEVICE_CUDA;
  CHECK(adp_stream_as_host(&stream, &host, message, sizeof(message)) != 0);
  CHECK(strstr(message, "lie on cuda") != NULL);
  CHECK(all_streams_are_released());
}

static void an_error_keeps_its_code_and_its_text(void) {
  const int codes[] = {ENOMEM, EINVAL, ETIMEDOUT, ENOTEMPTY, EIO, -7};
  // What is no errno value is not handed on.
  const int told[] = {ENOMEM, EINVAL, ETIMEDOUT, ENOTEMPTY, EIO, EPROTO};
  section("an error comes back with its code and its text");
  for (int index = 0; index < 6; ++index) {
    struct ArrowDeviceArrayStream stream, again;
    struct ArrowDeviceArray array;
    int64_t rows = 0;
    make_stream(&stream, make_ids, 2, codes[index]);
    CHECK(adp_stream_relay(&stream, &again, NULL, 0) == 0);
    CHECK(read_back(&again, 2, SUM_OF_IDS) == told[index]);
    // A stream that has failed goes on failing, and does not ask its own producer again.
    CHECK(again.get_next(&again, &array) == told[index]);
    const char* text = again.get_last_error(&again);
    CHECK(text != NULL && strstr(text, codes[index] == EIO ? "no text" : "the tank is empty") != NULL);
    again.release(&again);
    CHECK(all_streams_are_released());

    make_stream(&stream, make_ids, 2, codes[index]);
    CHECK(adp_stream_read(&stream, &rows, message, sizeof(message)) != 0);
    CHECK(rows == 8);
    CHECK(all_streams_are_released());
  }
}

static void a_stream_is_released_in_the_middle(void) {
  struct ArrowDeviceArrayStream stream, again;
  struct ArrowSchema schema;
  struct ArrowDeviceArray array;
  section("a stream is released in the middle, and what it gave outlives it");
  make_stream(&stream, make_batch, 3, 0);
  CHECK(adp_stream_relay(&stream, &again, NULL, 0) == 0);
  CHECK(again.get_schema(&again, &schema) == 0);
  CHECK(again.get_next(&again, &array) == 0);
  again.release(&again);
  CHECK(streams_made == streams_released);
  CHECK(sum_of_all(&schema, &array.array) == SUM_OF_BATCH);
  schema.release(&schema);
  array.array.release(&array.array);
  CHECK(all_streams_are_released());
}

static void wrong_streams_are_refused(void) {
  struct ArrowDeviceArrayStream stream;
  int64_t rows = 0;
  section("streams that break a rule are refused and released");
  for (int spoiled = 0; spoiled < 3; ++spoiled) {
    make_stream(&stream, make_ids, 1, 0);
    if (spoiled == 0) stream.get_schema = NULL;
    if (spoiled == 1) stream.get_next = NULL;
    if (spoiled == 2) stream.get_last_error = NULL;
    CHECK(adp_stream_read(&stream, &rows, message, sizeof(message)) == EINVAL);
    CHECK(strstr(message, "of the stream is null") != NULL);
    CHECK(all_streams_are_released());
  }
  CHECK(adp_stream_read(&stream, &rows, message, sizeof(message)) == EINVAL);
  CHECK(strstr(message, "the stream is released") != NULL);
  CHECK(adp_stream_read(NULL, &rows, message, sizeof(message)) == EINVAL);

  make_stream(&stream, make_ids, 3, 0)->last_type = ARROW_DEVICE_ROCM;
  CHECK(adp_stream_read(&stream, &rows, message, sizeof(message)) == EINVAL);
  CHECK(rows == 8 && strstr(message, "lies on rocm") != NULL);
  CHECK(all_streams_are_released());
}

int main(void) {
  streams_come_back();
  plain_streams_are_streams_on_the_host();
  an_error_keeps_its_code_and_its_text();
  a_stream_is_released_in_the_middle();
  wrong_streams_are_refused();
  return result();
}
