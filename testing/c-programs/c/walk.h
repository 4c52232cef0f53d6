// Reads columns in C: walks a schema by its format strings and an array beside it, and adds up what
// it finds.

#ifndef WALK_H_
#define WALK_H_

#include <arrow_device/abi.h>
#include <stdint.h>
#include <string.h>

// What `sum` gives for a type that it does not know.
#define UNKNOWN_TYPE (-1e300)

static inline int is_valid(const struct ArrowArray* array, int64_t index) {
  const uint8_t* validity = (const uint8_t*)array->buffers[0];
  return validity == NULL || ((validity[index / 8] >> (index % 8)) & 1);
}

static inline int32_t offset_at(const struct ArrowArray* array, int64_t index) {
  return ((const int32_t*)array->buffers[1])[index];
}

// The numbers, and the lengths of the strings, of `count` elements from `first` on. Nulls count
// nothing.
static inline double sum(const struct ArrowSchema* schema, const struct ArrowArray* array, int64_t first,
                         int64_t count) {
  double total = 0;
  for (int64_t index = array->offset + first; index < array->offset + first + count; ++index) {
    if (!is_valid(array, index)) continue;
    if (schema->dictionary != NULL && strcmp(schema->format, "c") == 0) {
      const int8_t key = ((const int8_t*)array->buffers[1])[index];
      total += sum(schema->dictionary, array->dictionary, key, 1);
    } else if (strcmp(schema->format, "i") == 0) {
      total += ((const int32_t*)array->buffers[1])[index];
    } else if (strcmp(schema->format, "g") == 0) {
      total += ((const double*)array->buffers[1])[index];
    } else if (strcmp(schema->format, "u") == 0) {
      total += offset_at(array, index + 1) - offset_at(array, index);
    } else if (strcmp(schema->format, "+l") == 0) {
      const int32_t from = offset_at(array, index);
      total += sum(schema->children[0], array->children[0], from, offset_at(array, index + 1) - from);
    } else if (strcmp(schema->format, "+s") == 0) {
      for (int64_t child = 0; child < schema->n_children; ++child) {
        total += sum(schema->children[child], array->children[child], index, 1);
      }
    } else {
      return UNKNOWN_TYPE;
    }
  }
  return total;
}

static inline double sum_of_all(const struct ArrowSchema* schema, const struct ArrowArray* array) {
  return sum(schema, array, 0, array->length);
}

// Moves a struct as the specification says: copy its bytes, mark the source released.
static inline struct ArrowArray moved_array(struct ArrowArray* source) {
  struct ArrowArray moved;
  memcpy(&moved, source, sizeof(moved));
  source->release = NULL;
  return moved;
}

static inline struct ArrowSchema moved_schema(struct ArrowSchema* source) {
  struct ArrowSchema moved;
  memcpy(&moved, source, sizeof(moved));
  source->release = NULL;
  return moved;
}

#endif  // WALK_H_
