// A consumer: takes columns that were made in Rust, reads them, moves them about, and releases them
// in every order.

#include "peer.h"
#include "columns.h"
#include "walk.h"

#include <pthread.h>

// A struct whose bytes were moved away means nothing any more, and nobody may look at it.
static void spoil(void* bytes, size_t size) { memset(bytes, 0xAB, size); }

static void values_are_read(void) {
  struct ArrowSchema schema;
  struct ArrowDeviceArray array;
  const double sums[] = {SUM_OF_IDS, SUM_OF_NAMES, SUM_OF_BATCH};
  section("the values of each kind are read by their format strings");
  for (int kind = ADP_INT32; kind <= ADP_BATCH; ++kind) {
    spoil(&schema, sizeof(schema));
    spoil(&array, sizeof(array));
    CHECK(adp_produce(kind, &schema, &array) == 0);
    CHECK(array.device_type == ARROW_DEVICE_CPU && array.device_id == -1 && array.sync_event == NULL);
    CHECK(array.reserved[0] == 0 && array.reserved[1] == 0 && array.reserved[2] == 0);
    CHECK(sum_of_all(&schema, &array.array) == sums[kind]);
    CHECK(adp_alive() > 0);
    array.array.release(&array.array);
    CHECK(array.array.release == NULL);
    CHECK(adp_alive() == 0);
    schema.release(&schema);
    CHECK(schema.release == NULL);
  }
}

static void the_outputs_stay_as_they_were_after_an_error(void) {
  struct ArrowSchema schema, schema_before;
  struct ArrowDeviceArray array, array_before;
  section("after an error the outputs are untouched");
  spoil(&schema, sizeof(schema));
  spoil(&array, sizeof(array));
  memcpy(&schema_before, &schema, sizeof(schema));
  memcpy(&array_before, &array, sizeof(array));
  CHECK(adp_produce(99, &schema, &array) != 0);
  CHECK(memcmp(&schema, &schema_before, sizeof(schema)) == 0);
  CHECK(memcmp(&array, &array_before, sizeof(array)) == 0);
}

static void a_schema_and_its_array_are_independent(void) {
  section("a schema and its array are released in either order");
  for (int schema_first = 0; schema_first < 2; ++schema_first) {
    struct ArrowSchema schema;
    struct ArrowDeviceArray array;
    CHECK(adp_produce(ADP_BATCH, &schema, &array) == 0);
    if (schema_first) {
      schema.release(&schema);
      CHECK(((const int32_t*)array.array.children[IDS]->buffers[1])[3] == 40);
      array.array.release(&array.array);
    } else {
      array.array.release(&array.array);
      CHECK(strcmp(schema.children[CITIES]->dictionary->format, "u") == 0);
      schema.release(&schema);
    }
    CHECK(adp_alive() == 0);
  }
}

static void the_base_is_moved(void) {
  struct ArrowSchema schema;
  struct ArrowDeviceArray array;
  section("both structs are moved by memcpy and released where they are then");
  CHECK(adp_produce(ADP_BATCH, &schema, &array) == 0);
  struct ArrowSchema* schema_elsewhere = (struct ArrowSchema*)counted_alloc(sizeof(schema));
  struct ArrowDeviceArray* array_elsewhere = (struct ArrowDeviceArray*)counted_alloc(sizeof(array));
  memcpy(schema_elsewhere, &schema, sizeof(schema));
  memcpy(array_elsewhere, &array, sizeof(array));
  spoil(&schema, sizeof(schema));
  spoil(&array, sizeof(array));
  CHECK(sum_of_all(schema_elsewhere, &array_elsewhere->array) == SUM_OF_BATCH);
  schema_elsewhere->release(schema_elsewhere);
  array_elsewhere->array.release(&array_elsewhere->array);
  CHECK(schema_elsewhere->release == NULL && array_elsewhere->array.release == NULL);
  CHECK(adp_alive() == 0);
  counted_free(schema_elsewhere);
  counted_free(array_elsewhere);
}

static void a_child_outlives_its_parent(void) {
  section("each column is moved out in turn, and keeps its own data and no other");
  const double sums[] = {SUM_OF_IDS, SUM_OF_NAMES, SUM_OF_SCORES, SUM_OF_CITIES};
  const int64_t buffers[] = {1, 3, 3, 3};
  for (int column = IDS; column <= CITIES; ++column) {
    struct ArrowSchema schema;
    struct ArrowDeviceArray array;
    CHECK(adp_produce(ADP_BATCH, &schema, &array) == 0);
    CHECK(adp_alive() == 10);
    struct ArrowArray child = moved_array(array.array.children[column]);
    struct ArrowSchema child_schema = moved_schema(schema.children[column]);
    array.array.release(&array.array);
    schema.release(&schema);
    spoil(&array, sizeof(array));
    spoil(&schema, sizeof(schema));
    CHECK(adp_alive() == buffers[column]);
    CHECK(sum_of_all(&child_schema, &child) == sums[column]);
    child.release(&child);
    child_schema.release(&child_schema);
    CHECK(adp_alive() == 0);
  }
}

// The root, a list column, its values, and a dictionary: four structs, released one after the
// other.
static void parts_are_released_in_every_order(void) {
  section("four parts of one tree are moved apart and released in all 24 orders");
  for (int order = 0; order < 4 * 4 * 4 * 4; ++order) {
    const int sequence[] = {order % 4, order / 4 % 4, order / 16 % 4, order / 64};
    int seen = 0;
    for (int i = 0; i < 4; ++i) seen |= 1 << sequence[i];
    if (seen != 15) continue;

    struct ArrowSchema schema;
    struct ArrowDeviceArray array;
    struct ArrowArray parts[4];
    CHECK(adp_produce(ADP_BATCH, &schema, &array) == 0);
    parts[1] = moved_array(array.array.children[SCORES]);
    parts[2] = moved_array(parts[1].children[0]);
    parts[3] = moved_array(array.array.children[CITIES]->dictionary);
    parts[0] = moved_array(&array.array);
    for (int i = 0; i < 4; ++i) {
      const int64_t alive_before = adp_alive();
      struct ArrowArray* part = &parts[sequence[i]];
      part->release(part);
      CHECK(part->release == NULL);
      CHECK(adp_alive() <= alive_before);
      if (parts[2].release != NULL) CHECK(((const double*)parts[2].buffers[1])[2] == 3.0);
      if (parts[3].release != NULL) CHECK(memcmp(parts[3].buffers[2], "OsloLima!", 9) == 0);
    }
    CHECK(adp_alive() == 0);
    schema.release(&schema);
  }
}

static void* release_elsewhere(void* array) {
  ((struct ArrowArray*)array)->release((struct ArrowArray*)array);
  return NULL;
}

static void threads_release(void) {
  section("a root and two columns are released by three threads at once");
  for (int round = 0; round < 50; ++round) {
    struct ArrowSchema schema;
    struct ArrowDeviceArray array;
    struct ArrowArray parts[3];
    pthread_t threads[3];
    CHECK(adp_produce(ADP_BATCH, &schema, &array) == 0);
    parts[0] = moved_array(array.array.children[NAMES]);
    parts[1] = moved_array(array.array.children[SCORES]);
    parts[2] = moved_array(&array.array);
    for (int i = 0; i < 3; ++i) CHECK(pthread_create(&threads[i], NULL, release_elsewhere, &parts[i]) == 0);
    for (int i = 0; i < 3; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(parts[0].release == NULL && parts[1].release == NULL && parts[2].release == NULL);
    CHECK(adp_alive() == 0);
    schema.release(&schema);
  }
}

int main(void) {
  values_are_read();
  the_outputs_stay_as_they_were_after_an_error();
  a_schema_and_its_array_are_independent();
  the_base_is_moved();
  a_child_outlives_its_parent();
  parts_are_released_in_every_order();
  threads_release();
  CHECK(blocks_alive == 0);
  return result();
}
