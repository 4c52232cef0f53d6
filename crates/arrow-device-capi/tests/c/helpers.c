// The helpers of abi_helpers.h, without any library: right structs, and each mistake in turn.
#include <arrow_device/abi_helpers.h>

#include <stdio.h>

static int failures = 0;
static int released = 0;

#define CHECK(holds)                                                         \
  do {                                                                       \
    if (!(holds)) {                                                          \
      failures++;                                                            \
      fprintf(stderr, "line %d does not hold: %s\n", __LINE__, #holds);      \
    }                                                                        \
  } while (0)

static void release_schema(struct ArrowSchema* schema) {
  released++;
  schema->release = NULL;
}
// One that forgets to mark the struct.
static void release_array(struct ArrowArray* array) {
  (void)array;
  released++;
}

// A batch of a column of numbers, one of words by their keys, and one of text.
struct tree {
  struct ArrowSchema schema, columns[3], words;
  struct ArrowSchema* children[3];
  struct ArrowDeviceArray array;
  struct ArrowArray arrays[3], values;
  struct ArrowArray* array_children[3];
  const void* buffers[4][3];
};

static void fill_schema(struct ArrowSchema* schema, const char* format, int64_t n_children,
                        struct ArrowSchema** children) {
  ardev_schema_struct_init(schema);
  schema->format = format;
  schema->n_children = n_children;
  schema->children = children;
  schema->release = release_schema;
}

static void fill_array(struct ArrowArray* array, int64_t n_buffers, const void** buffers) {
  ardev_array_struct_init(array);
  array->length = 2;
  array->n_buffers = n_buffers;
  array->buffers = buffers;
  array->release = release_array;
}

static void fill(struct tree* tree) {
  static const int64_t bytes[4] = {0, 0, 0, 0};
  int i;
  memset(tree, 0, sizeof(*tree));
  for (i = 0; i < 3; i++) {
    tree->children[i] = &tree->columns[i];
    tree->array_children[i] = &tree->arrays[i];
    tree->buffers[i][1] = tree->buffers[i][2] = bytes;
  }
  tree->buffers[3][1] = bytes;
  fill_schema(&tree->schema, "+s", 3, tree->children);
  fill_schema(&tree->columns[0], "l", 0, NULL);
  fill_schema(&tree->columns[1], "c", 0, NULL);
  fill_schema(&tree->columns[2], "u", 0, NULL);
  fill_schema(&tree->words, "tsn:UTC", 0, NULL);
  tree->columns[1].dictionary = &tree->words;
  fill_array(&tree->arrays[0], 2, tree->buffers[0]);
  fill_array(&tree->arrays[1], 2, tree->buffers[1]);
  fill_array(&tree->arrays[2], 3, tree->buffers[2]);
  fill_array(&tree->values, 2, tree->buffers[3]);
  tree->arrays[1].dictionary = &tree->values;
  fill_array(&tree->array.array, 1, tree->buffers[3]);
  tree->array.array.n_children = 3;
  tree->array.array.children = tree->array_children;
  tree->array.device_type = ARROW_DEVICE_CPU;
  tree->array.device_id = -1;
}

static char text[256];

static int check(struct tree* tree) {
  text[0] = 0;
  return ardev_device_array_struct_validate(&tree->array, &tree->schema, text, sizeof(text));
}

#define REFUSED(change, told)                        \
  do {                                               \
    struct tree tree;                                \
    fill(&tree);                                     \
    change;                                          \
    CHECK(check(&tree) == EINVAL);                   \
    if (strcmp(text, told) != 0) {                   \
      failures++;                                    \
      fprintf(stderr, "%s: it says %s\n", #change, text); \
    }                                                \
  } while (0)

static void mistakes(void) {
  REFUSED(tree.schema.release = NULL, "schema: it is released");
  REFUSED(tree.columns[0].release = NULL, "schema.children[0]: it is released");
  REFUSED(tree.children[1] = NULL, "schema.children[1]: it is NULL");
  REFUSED(tree.schema.children = NULL, "schema: children is NULL");
  REFUSED(tree.schema.n_children = -1, "schema: n_children is negative");
  REFUSED(tree.columns[0].n_children = 1, "schema.children[0]: n_children is not what the format asks for");
  REFUSED(tree.columns[2].format = NULL, "schema.children[2]: format is NULL");
  REFUSED(tree.columns[2].format = "tsx:", "schema.children[2]: format is none of the specification");
  REFUSED(tree.columns[1].format = "g", "schema.children[1]: there is a dictionary, and format is no integer");
  REFUSED(tree.words.format = "?", "schema.children[1].dictionary: format is none of the specification");
  REFUSED(tree.array.array.release = NULL, "array: it is released");
  REFUSED(tree.arrays[2].release = NULL, "array.children[2]: it is released");
  REFUSED(tree.arrays[0].length = -1, "array.children[0]: length is negative");
  REFUSED(tree.arrays[0].offset = -1, "array.children[0]: offset is negative");
  REFUSED(tree.arrays[0].offset = INT64_MAX, "array.children[0]: offset and length overflow");
  REFUSED(tree.arrays[0].null_count = -2, "array.children[0]: null_count is less than -1");
  REFUSED(tree.arrays[0].null_count = 3, "array.children[0]: null_count is more than length");
  REFUSED(tree.arrays[0].null_count = 1,
          "array.children[0]: there are nulls, and buffers[0], the validity bitmap, is NULL");
  REFUSED(tree.arrays[2].n_buffers = 2, "array.children[2]: n_buffers is not what the format asks for");
  REFUSED(tree.arrays[2].buffers = NULL, "array.children[2]: buffers is NULL");
  REFUSED(tree.buffers[0][1] = NULL, "array.children[0]: there are elements, and buffers[1] is NULL");
  REFUSED(tree.buffers[2][1] = NULL,
          "array.children[2]: there are elements, and the buffer that says where they are is NULL");
  REFUSED(tree.array.array.n_children = 2, "array: n_children is not the schema's");
  REFUSED(tree.array_children[0] = NULL, "array.children[0]: it is NULL");
  REFUSED(tree.array.array.offset = 1, "array.children[0]: it is shorter than its parent");
  REFUSED(tree.arrays[1].dictionary = NULL, "array.children[1].dictionary: it is NULL");
  REFUSED(tree.columns[1].dictionary = NULL, "array.children[1]: the schema has no dictionary");
  REFUSED(tree.values.length = -1, "array.children[1].dictionary: length is negative");
  REFUSED(tree.array.device_type = 0, "array: device_type is no type of device");
  REFUSED(tree.array.sync_event = &tree, "array: sync_event of an array on the CPU is NULL");
  REFUSED(tree.array.reserved[2] = 1, "array: reserved is zero");
}

static void formats(void) {
  static const char* const right[] = {"n",   "b",    "e",    "z",   "vu",    "w:3",  "d:9,2", "d:9,2,256", "tdD",
                                      "ttn", "tsu:", "tiM",  "tin", "tDs",   "L",    "Z",     "vz",        NULL};
  static const char* const wrong[] = {"", "x", "ll", "w:", "w:3x", "w:-1", "d:9", "ts", "td", "tiX", "+", "+x", "vx", NULL};
  struct ArrowSchema schema, child, entries, fields[2];
  struct ArrowSchema* children[2] = {&child, &child};
  struct ArrowSchema* pair[2] = {&fields[0], &fields[1]};
  struct ArrowSchema* one[1] = {&entries};
  int i;
  for (i = 0; right[i] != NULL; i++) {
    fill_schema(&schema, right[i], 0, NULL);
    CHECK(ardev_schema_struct_validate(&schema, text, sizeof(text)) == 0);
  }
  for (i = 0; wrong[i] != NULL; i++) {
    fill_schema(&schema, wrong[i], 0, NULL);
    CHECK(ardev_schema_struct_validate(&schema, NULL, 0) == EINVAL);
  }
  fill_schema(&child, "i", 0, NULL);
  for (i = 0; i < 2; i++) fill_schema(&fields[i], "i", 0, NULL);
  fill_schema(&entries, "+s", 2, pair);
  fill_schema(&schema, "+l", 1, children);
  CHECK(ardev_schema_struct_validate(&schema, text, sizeof(text)) == 0);
  schema.format = "+w:2";
  CHECK(ardev_schema_struct_validate(&schema, text, sizeof(text)) == 0);
  schema.format = "+m";
  CHECK(ardev_schema_struct_validate(&schema, text, sizeof(text)) == EINVAL);
  fill_schema(&schema, "+m", 1, one);
  CHECK(ardev_schema_struct_validate(&schema, text, sizeof(text)) == 0);
  fill_schema(&schema, "+ud:0,5", 2, children);
  CHECK(ardev_schema_struct_validate(&schema, text, sizeof(text)) == 0);
  schema.n_children = 1;
  CHECK(ardev_schema_struct_validate(&schema, text, sizeof(text)) == EINVAL);
  // A struct that is its own child ends somewhere.
  children[0] = &schema;
  fill_schema(&schema, "+l", 1, children);
  CHECK(ardev_schema_struct_validate(&schema, text, sizeof(text)) == EINVAL);
}

static void moves_and_releases(void) {
  struct tree tree;
  struct ArrowSchema schema;
  struct ArrowDeviceArray moved;
  struct ArrowArrayStream stream;
  struct ArrowDeviceArrayStream device_stream;
  fill(&tree);
  CHECK(check(&tree) == 0);
  ardev_device_array_struct_move(&tree.array, &moved);
  CHECK(ardev_device_array_struct_is_released(&tree.array) && !ardev_device_array_struct_is_released(&moved));
  CHECK(moved.array.n_children == 3 && moved.device_id == -1);
  ardev_device_array_struct_move(&moved, &moved);
  CHECK(!ardev_device_array_struct_is_released(&moved));
  ardev_device_array_struct_release(&moved);
  ardev_device_array_struct_release(&moved);
  CHECK(released == 1);
  ardev_schema_struct_move(&tree.schema, &schema);
  ardev_schema_struct_release(&schema);
  ardev_schema_struct_release(&tree.schema);
  CHECK(released == 2);
  ardev_stream_struct_init(&stream);
  ardev_stream_struct_release(&stream);
  ardev_device_stream_struct_init(&device_stream);
  CHECK(ardev_device_stream_struct_is_released(&device_stream));
}

int main(void) {
  mistakes();
  formats();
  moves_and_releases();
  if (failures == 0) puts("all is well");
  return failures != 0;
}
