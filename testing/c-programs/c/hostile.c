// A hostile producer: one member of a good batch is spoiled at a time. Each must be refused with an
// errno and a message, and everything released exactly once.

#include "peer.h"
#include "columns.h"
#include "walk.h"

#include <errno.h>

typedef void (*Spoiler)(struct ArrowSchema*, struct ArrowDeviceArray*);

struct Case {
  const char* what;
  Spoiler spoil;
  int expected;
};

// A child that a spoiler moved out. It is the spoiler's to release.
static struct ArrowArray stolen_array;
static struct ArrowSchema stolen_schema;

// The release callbacks go by tables of their own. These are what a spoiler writes to instead.
static void show_copies_of_tables(struct ArrowSchema* schema, struct ArrowDeviceArray* device) {
  static struct ArrowSchema* fields[MAX_CHILDREN];
  static struct ArrowArray* columns[MAX_CHILDREN];
  static struct ArrowArray* children[MAX_CHILDREN][MAX_CHILDREN];
  static const void* buffers[MAX_CHILDREN][MAX_BUFFERS];
  memcpy(fields, schema->children, sizeof(fields));
  memcpy(columns, device->array.children, sizeof(columns));
  schema->children = fields;
  device->array.children = columns;
  for (int i = 0; i < MAX_CHILDREN; ++i) {
    memcpy(children[i], columns[i]->children, sizeof(children[i]));
    memcpy(buffers[i], columns[i]->buffers, sizeof(buffers[i]));
    columns[i]->children = children[i];
    columns[i]->buffers = buffers[i];
  }
}

// A member of the array's root, or of one of its columns, set to a value.
#define SPOIL(name, target)                                                       \
  static void name(struct ArrowSchema* schema, struct ArrowDeviceArray* device) { \
    struct ArrowArray* root = &device->array;                                     \
    (void)schema;                                                                 \
    (void)root;                                                                   \
    target;                                                                       \
  }

SPOIL(negative_length, root->length = -1)
SPOIL(smallest_length, root->length = INT64_MIN)
SPOIL(largest_length, root->length = INT64_MAX)
SPOIL(negative_offset, root->offset = -1)
SPOIL(overflowing_offset, root->offset = INT64_MAX)
SPOIL(length_past_the_children, root->length = 5)
SPOIL(offset_past_the_children, root->offset = 1)
SPOIL(null_count_below_minus_one, root->null_count = -2)
SPOIL(null_count_above_length, root->children[NAMES]->null_count = 5)
SPOIL(nulls_without_a_bitmap, root->children[IDS]->null_count = 1)
SPOIL(negative_number_of_buffers, root->children[IDS]->n_buffers = -1)
SPOIL(no_buffers, root->children[IDS]->n_buffers = 0)
SPOIL(one_buffer_too_few, root->children[NAMES]->n_buffers = 2)
SPOIL(one_buffer_too_many, root->children[IDS]->n_buffers = 3)
SPOIL(all_the_buffers_there_are, root->children[IDS]->n_buffers = INT64_MAX)
SPOIL(null_table_of_buffers, root->children[IDS]->buffers = NULL)
SPOIL(null_values, root->children[IDS]->buffers[1] = NULL)
SPOIL(null_offsets, root->children[NAMES]->buffers[1] = NULL)
SPOIL(negative_number_of_children, root->n_children = -1)
SPOIL(one_child_too_few, root->n_children = 3)
SPOIL(one_child_too_many, root->n_children = 5)
SPOIL(all_the_children_there_are, root->n_children = INT64_MAX)
SPOIL(null_table_of_children, root->children = NULL)
SPOIL(null_child, root->children[SCORES] = NULL)
SPOIL(released_child, stolen_array = moved_array(root->children[NAMES]))
SPOIL(released_grandchild, stolen_array = moved_array(root->children[SCORES]->children[0]))
SPOIL(short_child, root->children[IDS]->length = 3)
SPOIL(missing_dictionary, root->children[CITIES]->dictionary = NULL)
SPOIL(released_dictionary, stolen_array = moved_array(root->children[CITIES]->dictionary))
SPOIL(unexpected_dictionary, root->children[IDS]->dictionary = root->children[NAMES])
SPOIL(list_inside_itself, root->children[SCORES]->children[0] = root->children[SCORES])
SPOIL(dictionary_of_itself, root->children[CITIES]->dictionary = root->children[CITIES])
SPOIL(event_on_the_host, device->sync_event = device)
SPOIL(columns_in_another_order, root->children[IDS] = root->children[NAMES])

// The same for the schema.
#define SPOIL_SCHEMA(name, target)                                                \
  static void name(struct ArrowSchema* schema, struct ArrowDeviceArray* device) { \
    (void)device;                                                                 \
    target;                                                                       \
  }

SPOIL_SCHEMA(null_format, schema->children[IDS]->format = NULL)
SPOIL_SCHEMA(empty_format, schema->children[IDS]->format = "")
SPOIL_SCHEMA(unknown_format, schema->children[IDS]->format = "?")
SPOIL_SCHEMA(format_with_a_tail, schema->children[IDS]->format = "ii")
SPOIL_SCHEMA(format_that_is_not_text, schema->children[IDS]->format = "\xFF\xFE")
SPOIL_SCHEMA(negative_number_of_fields, schema->n_children = -1)
SPOIL_SCHEMA(all_the_fields_there_are, schema->n_children = INT64_MAX)
SPOIL_SCHEMA(null_table_of_fields, schema->children = NULL)
SPOIL_SCHEMA(list_of_nothing, schema->children[SCORES]->n_children = 0)
SPOIL_SCHEMA(null_field, schema->children[SCORES] = NULL)
SPOIL_SCHEMA(released_field, stolen_schema = moved_schema(schema->children[NAMES]))
SPOIL_SCHEMA(released_values, stolen_schema = moved_schema(schema->children[CITIES]->dictionary))
SPOIL_SCHEMA(keys_that_are_text, schema->children[CITIES]->format = "u")

// Two ways round at each level: a walk that did not stop would visit 2^64 nodes.
static void schema_inside_itself(struct ArrowSchema* schema, struct ArrowDeviceArray* device) {
  (void)device;
  static struct ArrowSchema* table[2];
  struct ArrowSchema* scores = schema->children[SCORES];
  scores->format = "+s";
  scores->n_children = 2;
  table[0] = table[1] = scores;
  scores->children = table;
}

static void dictionary_inside_itself(struct ArrowSchema* schema, struct ArrowDeviceArray* device) {
  (void)device;
  schema->children[CITIES]->dictionary = schema->children[CITIES];
}

static void negative_metadata(struct ArrowSchema* schema, struct ArrowDeviceArray* device) {
  (void)device;
  static const int32_t pairs[] = {-1, 0};
  schema->metadata = (const char*)pairs;
}

static void metadata_with_a_negative_length(struct ArrowSchema* schema, struct ArrowDeviceArray* device) {
  (void)device;
  static const int32_t pairs[] = {1, -5, 0};
  schema->metadata = (const char*)pairs;
}

static const struct Case array_cases[] = {
    {"the length is negative", negative_length, EINVAL},
    {"the length is the smallest there is", smallest_length, EINVAL},
    {"the length is the largest there is", largest_length, EINVAL},
    {"the offset is negative", negative_offset, EINVAL},
    {"offset and length overflow", overflowing_offset, EINVAL},
    {"the length is past the children", length_past_the_children, EINVAL},
    {"the offset is past the children", offset_past_the_children, EINVAL},
    {"the null count is -2", null_count_below_minus_one, EINVAL},
    {"the null count is above the length", null_count_above_length, EINVAL},
    {"there are nulls and no bitmap", nulls_without_a_bitmap, EINVAL},
    {"the number of buffers is negative", negative_number_of_buffers, EINVAL},
    {"there are no buffers", no_buffers, EINVAL},
    {"there is one buffer too few", one_buffer_too_few, EINVAL},
    {"there is one buffer too many", one_buffer_too_many, EINVAL},
    {"the number of buffers is the largest there is", all_the_buffers_there_are, EINVAL},
    {"the table of buffers is null", null_table_of_buffers, EINVAL},
    {"the values are null", null_values, EINVAL},
    {"the offsets are null", null_offsets, EINVAL},
    {"the number of children is negative", negative_number_of_children, EINVAL},
    {"there is one child too few", one_child_too_few, EINVAL},
    {"there is one child too many", one_child_too_many, EINVAL},
    {"the number of children is the largest there is", all_the_children_there_are, EINVAL},
    {"the table of children is null", null_table_of_children, EINVAL},
    {"a child is null", null_child, EINVAL},
    {"a child is released", released_child, EINVAL},
    {"a child's child is released", released_grandchild, EINVAL},
    {"a child is too short", short_child, EINVAL},
    {"a dictionary is missing", missing_dictionary, EINVAL},
    {"a dictionary is released", released_dictionary, EINVAL},
    {"there is a dictionary where there is none", unexpected_dictionary, EINVAL},
    {"a list is its own child", list_inside_itself, EINVAL},
    {"a dictionary is its own", dictionary_of_itself, EINVAL},
    {"there is an event on the host", event_on_the_host, EINVAL},
    {"a column has another type than its field", columns_in_another_order, EINVAL},
};

static const struct Case schema_cases[] = {
    {"the format is null", null_format, EINVAL},
    {"the format is empty", empty_format, EINVAL},
    {"the format is unknown", unknown_format, EINVAL},
    {"the format has a tail", format_with_a_tail, EINVAL},
    {"the format is not text", format_that_is_not_text, EINVAL},
    {"the number of fields is negative", negative_number_of_fields, EINVAL},
    {"the number of fields is the largest there is", all_the_fields_there_are, E2BIG},
    {"the table of fields is null", null_table_of_fields, EINVAL},
    {"a list has no field", list_of_nothing, EINVAL},
    {"a field is null", null_field, EINVAL},
    {"a field is released", released_field, EINVAL},
    {"the type of a dictionary is released", released_values, EINVAL},
    {"the keys of a dictionary are text", keys_that_are_text, EINVAL},
    {"a type is inside itself, twice", schema_inside_itself, E2BIG},
    {"a dictionary is inside itself", dictionary_inside_itself, E2BIG},
    {"the metadata has -1 pairs", negative_metadata, EINVAL},
    {"the metadata has a key of -5 bytes", metadata_with_a_negative_length, EINVAL},
};

static void is_refused(const struct Case* hostile, int is_schema) {
  struct ArrowSchema schema;
  struct ArrowDeviceArray array;
  char message[256] = "";
  const int64_t base_arrays_released_before = base_arrays_released;
  make_batch(&schema, &array);
  show_copies_of_tables(&schema, &array);
  stolen_array.release = NULL;
  stolen_schema.release = NULL;
  hostile->spoil(&schema, &array);

  const int error = adp_refuse(&schema, &array, message, sizeof(message));
  printf("- %s\n    %d: %s\n", hostile->what, error, message);
  CHECK(error == hostile->expected);
  CHECK(strlen(message) > 10);
  CHECK(schema.release == NULL);
  CHECK(is_schema == (array.array.release != NULL));
  if (array.array.release != NULL) array.array.release(&array.array);
  CHECK(base_arrays_released == base_arrays_released_before + 1);

  if (stolen_array.release != NULL) stolen_array.release(&stolen_array);
  if (stolen_schema.release != NULL) stolen_schema.release(&stolen_schema);
  CHECK(everything_is_released());
}

static void nothing_is_refused_without_a_reason(void) {
  struct ArrowSchema schema;
  struct ArrowDeviceArray array;
  section("the batch itself is not refused");
  make_batch(&schema, &array);
  show_copies_of_tables(&schema, &array);
  CHECK(adp_refuse(&schema, &array, NULL, 0) == 0);
  CHECK(schema.release == NULL && array.array.release == NULL);
  CHECK(everything_is_released());
}

static void released_and_missing_structs_are_refused(void) {
  struct ArrowSchema schema;
  struct ArrowDeviceArray array;
  section("released structs and null pointers are refused");
  make_batch(&schema, &array);
  CHECK(adp_refuse(NULL, &array, NULL, 0) == EINVAL);
  CHECK(array.array.release != NULL);
  CHECK(adp_refuse(&schema, NULL, NULL, 0) == EINVAL);
  CHECK(schema.release == NULL);
  // The schema is released by now.
  CHECK(adp_refuse(&schema, &array, NULL, 0) == EINVAL);
  array.array.release(&array.array);
  make_schema(&schema, "i", "");
  CHECK(adp_refuse(&schema, &array, NULL, 0) == EINVAL);
  CHECK(everything_is_released());
}

static void a_panic_is_an_errno(void) {
  char message[8];
  section("a panic becomes an errno, and its message is cut where the caller has no more room");
  CHECK(adp_panic(message, sizeof(message)) == EFAULT);
  CHECK(strcmp(message, "planted") == 0);
}

int main(void) {
  nothing_is_refused_without_a_reason();
  for (size_t i = 0; i < sizeof(array_cases) / sizeof(array_cases[0]); ++i) is_refused(&array_cases[i], 0);
  for (size_t i = 0; i < sizeof(schema_cases) / sizeof(schema_cases[0]); ++i) is_refused(&schema_cases[i], 1);
  released_and_missing_structs_are_refused();
  a_panic_is_an_errno();
  return result();
}
