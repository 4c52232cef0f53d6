// A producer: makes columns in C, hands them over, gets the same ones back, and counts what is
// released when.

#include "peer.h"
#include "columns.h"
#include "walk.h"

typedef void (*Maker)(struct ArrowSchema*, struct ArrowDeviceArray*);

// Hands an array over and gets it back, with everything checked that does not depend on its type.
static void exchange(const char* what, Maker make, double expected_sum) {
  struct ArrowSchema schema, schema_again;
  struct ArrowDeviceArray array, array_again;
  char message[256] = "";
  section(what);
  make(&schema, &array);
  const struct ArrowArray sent = array.array;
  const int64_t arrays_released_before = arrays_released;
  const int64_t base_arrays_released_before = base_arrays_released;
  memset(&schema_again, 0xAB, sizeof(schema_again));
  memset(&array_again, 0xAB, sizeof(array_again));

  CHECK(adp_exchange(&schema, &array, &schema_again, &array_again, message, sizeof(message)) == 0);
  printf("%s", message);
  CHECK(schema.release == NULL);
  CHECK(array.array.release == NULL);
  CHECK(schemas_made == schemas_released);
  CHECK(arrays_released == arrays_released_before);

  CHECK(array_again.array.release != release_array);
  CHECK(array_again.device_type == ARROW_DEVICE_CPU);
  CHECK(array_again.device_id == -1);
  CHECK(array_again.sync_event == NULL);
  CHECK(array_again.reserved[0] == 0 && array_again.reserved[1] == 0 && array_again.reserved[2] == 0);
  CHECK(array_again.array.length == sent.length && array_again.array.null_count == sent.null_count);
  CHECK(array_again.array.n_buffers == sent.n_buffers && array_again.array.n_children == sent.n_children);
  for (int64_t i = 0; i < sent.n_buffers; ++i) CHECK(array_again.array.buffers[i] == sent.buffers[i]);
  CHECK(sum_of_all(&schema_again, &array_again.array) == expected_sum);

  schema_again.release(&schema_again);
  CHECK(schema_again.release == NULL);
  CHECK(arrays_released == arrays_released_before);
  array_again.array.release(&array_again.array);
  CHECK(array_again.array.release == NULL);
  CHECK(base_arrays_released == base_arrays_released_before + 1);
  CHECK(everything_is_released());
}

static void make_sliced_batch(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  make_batch(schema, array);
  array->array.offset = 1;
  array->array.length = 2;
}

// As a producer that has no room to be empty in: tables are null where nothing is in them.
static void make_batch_without_columns(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  make_schema(schema, "+s", "");
  schema->children = NULL;
  on_the_host(array);
  make_array(&array->array, 4, 1);
  array->array.children = NULL;
}

static void a_column_moved_out_keeps_the_whole_until_it_is_released(void) {
  struct ArrowSchema schema, schema_again;
  struct ArrowDeviceArray array, array_again;
  const int64_t arrays_released_before = arrays_released;
  const int64_t base_arrays_released_before = base_arrays_released;
  section("a column that the consumer moved out keeps what it came from");
  make_batch(&schema, &array);
  CHECK(adp_exchange(&schema, &array, &schema_again, &array_again, NULL, 0) == 0);
  struct ArrowArray names = moved_array(array_again.array.children[NAMES]);
  array_again.array.release(&array_again.array);
  // A consumer never releases a child of somebody else's tree, so all of it stays until the last
  // column is released.
  CHECK(arrays_released == arrays_released_before);
  CHECK(sum_of_all(schema_again.children[NAMES], &names) == SUM_OF_NAMES);
  names.release(&names);
  CHECK(base_arrays_released == base_arrays_released_before + 1);
  schema_again.release(&schema_again);
  CHECK(everything_is_released());
}

static void a_device_that_nobody_knows_is_carried(void) {
  struct ArrowSchema schema, schema_again;
  struct ArrowDeviceArray array, array_again;
  const int64_t id = INT64_MIN + 7;
  int event = 0;
  section("a device that nobody knows, its number and its event are carried unchanged");
  make_ids(&schema, &array);
  array.device_type = 4711;
  array.device_id = id;
  array.sync_event = &event;
  array.reserved[1] = -1;
  CHECK(adp_exchange(&schema, &array, &schema_again, &array_again, NULL, 0) == 0);
  CHECK(array_again.device_type == 4711);
  CHECK(array_again.device_id == id);
  CHECK(array_again.sync_event == &event);
  CHECK(array_again.reserved[1] == 0);
  array_again.array.release(&array_again.array);
  schema_again.release(&schema_again);
  CHECK(everything_is_released());
}

#ifdef PLANT_DOUBLE_RELEASE
// For the tools to find: the same struct is released at two addresses.
static void release_twice(void) {
  struct ArrowSchema schema;
  make_schema(&schema, "i", "");
  struct ArrowSchema copy = schema;
  schema.release(&schema);
  copy.release(&copy);
}
#endif

int main(void) {
  exchange("an int32 array", make_ids, SUM_OF_IDS);
  exchange("a utf8 column with a null", make_names, SUM_OF_NAMES);
  exchange("a record batch with a list and a dictionary", make_batch, SUM_OF_BATCH);
  exchange("two rows of a record batch", make_sliced_batch, 20.0 + 30.0 + 5.0 + 4.0);
  exchange("a record batch without columns", make_batch_without_columns, 0.0);
  a_column_moved_out_keeps_the_whole_until_it_is_released();
  a_device_that_nobody_knows_is_carried();
#ifdef PLANT_DOUBLE_RELEASE
  release_twice();
#endif
  return result();
}
