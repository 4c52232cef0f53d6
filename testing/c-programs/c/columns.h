// Columns made in C, with release callbacks as the specification describes them.
//
// Each node keeps its own books behind `private_data`: its buffers, and the structs of its
// children. The release callbacks look at nothing else, so they work at whatever address a struct
// was moved to, and for structs whose public members were spoiled on purpose. Every allocation and
// every node is counted.

#ifndef COLUMNS_H_
#define COLUMNS_H_

#include <arrow_device/abi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BUFFERS 3
#define MAX_CHILDREN 4

static int64_t blocks_alive = 0;
static int64_t schemas_made = 0;
static int64_t schemas_released = 0;
static int64_t arrays_made = 0;
static int64_t arrays_released = 0;
// How many arrays were released while no other was. Of a tree, a consumer may do this to the base
// structure alone.
static int64_t base_arrays_released = 0;
static int64_t arrays_being_released = 0;

static inline void* counted_alloc(size_t size) {
  void* block = calloc(1, size);
  if (block == NULL) abort();
  ++blocks_alive;
  return block;
}

static inline void counted_free(void* block) {
  if (block == NULL) return;
  --blocks_alive;
#ifndef PLANT_LEAK
  free(block);
#endif
}

// Whether everything made so far was released, each node once, and all memory is free again.
static inline int everything_is_released(void) {
  return schemas_made == schemas_released && arrays_made == arrays_released && blocks_alive == 0;
}

// ---- schemas

struct SchemaBooks {
  struct ArrowSchema* children[MAX_CHILDREN];
  struct ArrowSchema* dictionary;
};

static inline void release_child_schema(struct ArrowSchema* child) {
  if (child == NULL) return;
  // A child that was moved out is marked released. Its struct is ours all the same.
  if (child->release != NULL) child->release(child);
  counted_free(child);
}

static inline void release_schema(struct ArrowSchema* schema) {
  struct SchemaBooks* books = (struct SchemaBooks*)schema->private_data;
  for (int i = 0; i < MAX_CHILDREN; ++i) release_child_schema(books->children[i]);
  release_child_schema(books->dictionary);
  counted_free(books);
  ++schemas_released;
  schema->release = NULL;
}

// `format` and `name` are string literals: nothing to free.
static inline void make_schema(struct ArrowSchema* out, const char* format, const char* name) {
  struct SchemaBooks* books = (struct SchemaBooks*)counted_alloc(sizeof(struct SchemaBooks));
  memset(out, 0, sizeof(*out));
  out->format = format;
  out->name = name;
  out->flags = ARROW_FLAG_NULLABLE;
  out->children = books->children;
  out->release = release_schema;
  out->private_data = books;
  ++schemas_made;
}

static inline struct ArrowSchema* add_child_schema(struct ArrowSchema* parent, const char* format, const char* name) {
  struct ArrowSchema* child = (struct ArrowSchema*)counted_alloc(sizeof(struct ArrowSchema));
  make_schema(child, format, name);
  parent->children[parent->n_children++] = child;
  return child;
}

static inline struct ArrowSchema* add_dictionary_schema(struct ArrowSchema* parent, const char* format) {
  struct ArrowSchema* values = (struct ArrowSchema*)counted_alloc(sizeof(struct ArrowSchema));
  make_schema(values, format, "");
  ((struct SchemaBooks*)parent->private_data)->dictionary = values;
  parent->dictionary = values;
  return values;
}

// ---- arrays

struct ArrayBooks {
  void* owned[MAX_BUFFERS];
  const void* buffers[MAX_BUFFERS];
  struct ArrowArray* children[MAX_CHILDREN];
  struct ArrowArray* dictionary;
};

static inline void release_child_array(struct ArrowArray* child) {
  if (child == NULL) return;
  if (child->release != NULL) child->release(child);
  counted_free(child);
}

static inline void release_array(struct ArrowArray* array) {
  struct ArrayBooks* books = (struct ArrayBooks*)array->private_data;
  if (arrays_being_released++ == 0) ++base_arrays_released;
  for (int i = 0; i < MAX_CHILDREN; ++i) release_child_array(books->children[i]);
  release_child_array(books->dictionary);
  for (int i = 0; i < MAX_BUFFERS; ++i) counted_free(books->owned[i]);
  counted_free(books);
  ++arrays_released;
  --arrays_being_released;
  array->release = NULL;
}

static inline void make_array(struct ArrowArray* out, int64_t length, int64_t n_buffers) {
  struct ArrayBooks* books = (struct ArrayBooks*)counted_alloc(sizeof(struct ArrayBooks));
  memset(out, 0, sizeof(*out));
  out->length = length;
  out->n_buffers = n_buffers;
  out->buffers = books->buffers;
  out->children = books->children;
  out->release = release_array;
  out->private_data = books;
  ++arrays_made;
}

static inline void set_buffer(struct ArrowArray* array, int index, const void* bytes, size_t size) {
  struct ArrayBooks* books = (struct ArrayBooks*)array->private_data;
  books->owned[index] = counted_alloc(size);
  memcpy(books->owned[index], bytes, size);
  books->buffers[index] = books->owned[index];
}

static inline struct ArrowArray* add_child_array(struct ArrowArray* parent, int64_t length, int64_t n_buffers) {
  struct ArrowArray* child = (struct ArrowArray*)counted_alloc(sizeof(struct ArrowArray));
  make_array(child, length, n_buffers);
  parent->children[parent->n_children++] = child;
  return child;
}

static inline struct ArrowArray* add_dictionary_array(struct ArrowArray* parent, int64_t length, int64_t n_buffers) {
  struct ArrowArray* values = (struct ArrowArray*)counted_alloc(sizeof(struct ArrowArray));
  make_array(values, length, n_buffers);
  ((struct ArrayBooks*)parent->private_data)->dictionary = values;
  parent->dictionary = values;
  return values;
}

// ---- the columns, four rows each

static inline void fill_ids(struct ArrowArray* ids) {
  const int32_t values[] = {10, 20, 30, 40};
  set_buffer(ids, 1, values, sizeof(values));
}

// "ada", null, "", "emile" with an accent.
static inline void fill_names(struct ArrowArray* names) {
  const uint8_t validity[] = {0x0D};
  const int32_t offsets[] = {0, 3, 3, 3, 9};
  names->null_count = 1;
  set_buffer(names, 0, validity, sizeof(validity));
  set_buffer(names, 1, offsets, sizeof(offsets));
  set_buffer(names, 2, "ada\xC3\xA9mile", 9);
}

// [1.5, 2.5], [], null, [3].
static inline void fill_scores(struct ArrowArray* scores) {
  const uint8_t validity[] = {0x0B};
  const int32_t offsets[] = {0, 2, 2, 2, 3};
  const double values[] = {1.5, 2.5, 3.0};
  scores->null_count = 1;
  set_buffer(scores, 0, validity, sizeof(validity));
  set_buffer(scores, 1, offsets, sizeof(offsets));
  set_buffer(add_child_array(scores, 3, 2), 1, values, sizeof(values));
}

// "Oslo", "Lima!", "Oslo", "Lima!".
static inline void fill_cities(struct ArrowArray* cities) {
  const int8_t keys[] = {0, 1, 0, 1};
  const int32_t offsets[] = {0, 4, 9};
  struct ArrowArray* values = add_dictionary_array(cities, 2, 3);
  set_buffer(cities, 1, keys, sizeof(keys));
  set_buffer(values, 1, offsets, sizeof(offsets));
  set_buffer(values, 2, "OsloLima!", 9);
}

static inline void on_the_host(struct ArrowDeviceArray* out) {
  memset(out, 0, sizeof(*out));
  out->device_type = ARROW_DEVICE_CPU;
  out->device_id = -1;
}

static inline void make_ids(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  make_schema(schema, "i", "id");
  on_the_host(array);
  make_array(&array->array, 4, 2);
  fill_ids(&array->array);
}

static inline void make_names(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  make_schema(schema, "u", "name");
  on_the_host(array);
  make_array(&array->array, 4, 3);
  fill_names(&array->array);
}

#define IDS 0
#define NAMES 1
#define SCORES 2
#define CITIES 3

static inline void make_batch(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  make_schema(schema, "+s", "");
  schema->flags = 0;
  add_child_schema(schema, "i", "id");
  add_child_schema(schema, "u", "name");
  add_child_schema(add_child_schema(schema, "+l", "scores"), "g", "item");
  add_dictionary_schema(add_child_schema(schema, "c", "city"), "u");

  on_the_host(array);
  make_array(&array->array, 4, 1);
  fill_ids(add_child_array(&array->array, 4, 2));
  fill_names(add_child_array(&array->array, 4, 3));
  fill_scores(add_child_array(&array->array, 4, 2));
  fill_cities(add_child_array(&array->array, 4, 2));
}

// What `sum` of walk.h gives for each.
#define SUM_OF_IDS 100.0
#define SUM_OF_NAMES 9.0
#define SUM_OF_SCORES 7.0
#define SUM_OF_CITIES 18.0
#define SUM_OF_BATCH 134.0

#endif  // COLUMNS_H_
