// A consumer of streams: reads those that are made in Rust, moves them about, and lets go of them
// at any time.

#include "peer.h"
#include "columns.h"
#include "walk.h"

#include <errno.h>

static const double sums[] = {SUM_OF_IDS, SUM_OF_NAMES, SUM_OF_BATCH};

static void streams_are_read(void) {
  section("streams of each kind of array are read, and their schema at any time");
  for (int kind = ADP_INT32; kind <= ADP_BATCH; ++kind) {
    struct ArrowDeviceArrayStream stream;
    struct ArrowSchema schema, schema_again;
    struct ArrowDeviceArray array;
    memset(&stream, 0xAB, sizeof(stream));
    CHECK(adp_stream_produce(kind, 3, ADP_ENDS, &stream) == 0);
    CHECK(stream.device_type == ARROW_DEVICE_CPU);
    CHECK(stream.get_schema(&stream, &schema) == 0);
    for (int index = 0; index < 3; ++index) {
      memset(&array, 0xAB, sizeof(array));
      CHECK(stream.get_next(&stream, &array) == 0);
      CHECK(array.device_type == ARROW_DEVICE_CPU && array.device_id == -1 && array.sync_event == NULL);
      CHECK(array.reserved[0] == 0 && array.reserved[1] == 0 && array.reserved[2] == 0);
      CHECK(sum_of_all(&schema, &array.array) == sums[kind]);
      array.array.release(&array.array);
      CHECK(stream.get_schema(&stream, &schema_again) == 0);
      CHECK(strcmp(schema.format, schema_again.format) == 0);
      CHECK(schema.n_children == schema_again.n_children);
      schema_again.release(&schema_again);
    }
    for (int index = 0; index < 3; ++index) {
      memset(&array, 0xAB, sizeof(array));
      CHECK(stream.get_next(&stream, &array) == 0);
      CHECK(array.array.release == NULL);
    }
    CHECK(stream.get_schema(&stream, &schema_again) == 0);
    schema_again.release(&schema_again);
    schema.release(&schema);
    stream.release(&stream);
    CHECK(stream.release == NULL);
    CHECK(adp_alive() == 0);
  }
}

static void what_a_stream_gave_outlives_it(void) {
  struct ArrowDeviceArrayStream stream;
  struct ArrowSchema schema;
  struct ArrowDeviceArray array;
  section("a schema and an array outlive their stream, which is moved and released in the middle");
  CHECK(adp_stream_produce(ADP_BATCH, 5, ADP_ENDS, &stream) == 0);
  CHECK(stream.get_schema(&stream, &schema) == 0);
  struct ArrowDeviceArrayStream* elsewhere =
      (struct ArrowDeviceArrayStream*)counted_alloc(sizeof(struct ArrowDeviceArrayStream));
  memcpy(elsewhere, &stream, sizeof(stream));
  memset(&stream, 0xAB, sizeof(stream));
  CHECK(elsewhere->get_next(elsewhere, &array) == 0);
  elsewhere->release(elsewhere);
  CHECK(elsewhere->release == NULL);
  counted_free(elsewhere);
  CHECK(sum_of_all(&schema, &array.array) == SUM_OF_BATCH);
  CHECK(adp_alive() > 0);
  schema.release(&schema);
  array.array.release(&array.array);
  CHECK(adp_alive() == 0);
}

// An error and a panic are a code and a text, as often as one asks, and nothing is handed out with
// them.
static void errors_are_told(void) {
  const int ends[] = {ADP_FAILS, ADP_PANICS};
  const int codes[] = {ETIMEDOUT, EFAULT};
  const char* texts[] = {"the well ran dry", "planted for a test"};
  section("an error and a panic in the middle are a code and a text");
  for (int index = 0; index < 2; ++index) {
    struct ArrowDeviceArrayStream stream;
    struct ArrowSchema schema;
    struct ArrowDeviceArray array;
    CHECK(adp_stream_produce(ADP_BATCH, 1, ends[index], &stream) == 0);
    CHECK(stream.get_next(&stream, &array) == 0);
    array.array.release(&array.array);
    for (int turn = 0; turn < 2; ++turn) {
      memset(&array, 0xAB, sizeof(array));
      CHECK(stream.get_next(&stream, &array) == codes[index]);
      CHECK(array.array.release == NULL);
      const char* text = stream.get_last_error(&stream);
      CHECK(text != NULL && strstr(text, texts[index]) != NULL);
    }
    CHECK(stream.get_schema(&stream, &schema) == 0);
    schema.release(&schema);
    stream.release(&stream);
    CHECK(adp_alive() == 0);
  }
}

int main(void) {
  streams_are_read();
  what_a_stream_gave_outlives_it();
  errors_are_told();
  return result();
}
