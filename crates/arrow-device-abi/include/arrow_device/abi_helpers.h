// Functions that help with the structs of abi.h, for C11 and C++17. All code is in this header: no
// library is linked.
//
// For each of five structs, there are four functions. These are the functions of ArrowArray; the
// names of the other functions have `schema`, `device_array`, `stream` or `device_stream` in place
// of `array`:
//
//   ardev_array_struct_init(it)         makes `it` a struct that counts as released
//   ardev_array_struct_is_released(it)
//   ardev_array_struct_move(from, to)   hands a struct on; `to` is overwritten and not released
//   ardev_array_struct_release(it)      releases a struct, unless it is released already
//
// Three functions look for mistakes of the program that filled a struct:
//
//   ardev_schema_struct_validate(schema, text, capacity)
//   ardev_array_struct_validate(array, schema, text, capacity)
//   ardev_device_array_struct_validate(array, schema, text, capacity)
//
// They return 0, or they return EINVAL and write a text that names a struct of the tree and the
// rule that the struct breaks. They read the structs and no data, so that they can be called for
// arrays on any device. The library's ardev_array_check checks more, and its texts say more.

#ifndef ARROW_DEVICE_ABI_HELPERS_H_
#define ARROW_DEVICE_ABI_HELPERS_H_

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"

// The four functions of one type of struct. RELEASE is where its release callback is, and TAKES the
// struct that the callback takes.
#define ARDEV_STRUCT_HELPERS_(NAME, TYPE, RELEASE, TAKES)                                     \
  static inline void ardev_##NAME##_struct_init(struct TYPE* it) { memset(it, 0, sizeof(*it)); } \
  static inline int ardev_##NAME##_struct_is_released(const struct TYPE* it) {                \
    return it->RELEASE == NULL;                                                               \
  }                                                                                           \
  static inline void ardev_##NAME##_struct_move(struct TYPE* from, struct TYPE* to) {         \
    if (from == to) return;                                                                   \
    memcpy(to, from, sizeof(*to));                                                            \
    from->RELEASE = NULL;                                                                     \
  }                                                                                           \
  static inline void ardev_##NAME##_struct_release(struct TYPE* it) {                         \
    if (it->RELEASE == NULL) return;                                                          \
    it->RELEASE(TAKES);                                                                       \
    it->RELEASE = NULL;                                                                       \
  }

ARDEV_STRUCT_HELPERS_(schema, ArrowSchema, release, it)
ARDEV_STRUCT_HELPERS_(array, ArrowArray, release, it)
ARDEV_STRUCT_HELPERS_(device_array, ArrowDeviceArray, array.release, &it->array)
ARDEV_STRUCT_HELPERS_(stream, ArrowArrayStream, release, it)
ARDEV_STRUCT_HELPERS_(device_stream, ArrowDeviceArrayStream, release, it)

#undef ARDEV_STRUCT_HELPERS_

// ---- everything below but the three functions named above is for these three only

#define ARDEV_STRUCT_DEPTH_ 64

// A place in the tree, and where to write what is wrong there.
struct ardev_struct_place_ {
  char* text;
  size_t capacity;
  char path[256];
};

static inline int ardev_struct_wrong_(const struct ardev_struct_place_* place, const char* rule) {
  if (place->capacity > 0) snprintf(place->text, place->capacity, "%s: %s", place->path, rule);
  return EINVAL;
}

static inline struct ardev_struct_place_ ardev_struct_below_(const struct ardev_struct_place_* place, const char* what,
                                                            int64_t index) {
  struct ardev_struct_place_ below = *place;
  const size_t len = strlen(below.path);
  if (index < 0) {
    snprintf(below.path + len, sizeof(below.path) - len, ".%s", what);
  } else {
    snprintf(below.path + len, sizeof(below.path) - len, ".%s[%lld]", what, (long long)index);
  }
  return below;
}

// What a format string asks for.
struct ardev_struct_shape_ {
  int64_t n_buffers;   // at least, where `is_variadic`
  int64_t n_children;  // -1 for any
  int has_validity;
  int is_variadic;
  int is_integer;
  int has_values;  // the last buffer has bytes for each element
};

static inline int ardev_struct_shape_of_(const char* format, struct ardev_struct_shape_* shape) {
  const char* at;
  memset(shape, 0, sizeof(*shape));
  shape->has_validity = 1;
  shape->n_buffers = 2;
  if (format[0] != 0 && format[1] == 0) {
    if (strchr("cCsSiIlL", format[0]) != NULL) shape->is_integer = 1;
    if (strchr("bcCsSiIlLefg", format[0]) != NULL) {
      shape->has_values = 1;
      return 1;
    }
    if (format[0] == 'n') shape->n_buffers = shape->has_validity = 0;
    if (format[0] == 'n') return 1;
    shape->n_buffers = 3;
    return strchr("zZuU", format[0]) != NULL;
  }
  if (strcmp(format, "vz") == 0 || strcmp(format, "vu") == 0) {
    shape->n_buffers = 3;
    shape->is_variadic = 1;
    return 1;
  }
  if (strncmp(format, "w:", 2) == 0) {
    shape->has_values = strcmp(format, "w:0") != 0;
    return format[2] >= '0' && format[2] <= '9' && format[2 + strspn(format + 2, "0123456789")] == 0;
  }
  if (strncmp(format, "d:", 2) == 0) {
    shape->has_values = 1;
    return format[2] >= '0' && format[2] <= '9' && strchr(format, ',') != NULL;
  }
  if (format[0] == 't') {
    shape->has_values = 1;
    if (strncmp(format, "ts", 2) == 0) {
      return format[2] != 0 && strchr("smun", format[2]) != NULL && format[3] == ':';
    }
    for (at = "tdD\0tdm\0tts\0ttm\0ttu\0ttn\0tDs\0tDm\0tDu\0tDn\0tiM\0tiD\0tin\0"; *at != 0; at += 4) {
      if (strcmp(format, at) == 0) return 1;
    }
    return 0;
  }
  if (format[0] != '+') return 0;
  shape->n_children = 1;
  if (strcmp(format, "+l") == 0 || strcmp(format, "+L") == 0 || strcmp(format, "+m") == 0) return 1;
  if (strcmp(format, "+vl") == 0 || strcmp(format, "+vL") == 0) {
    shape->n_buffers = 3;
    return 1;
  }
  shape->n_buffers = 1;
  if (strncmp(format, "+w:", 3) == 0) {
    return format[3] >= '0' && format[3] <= '9' && format[3 + strspn(format + 3, "0123456789")] == 0;
  }
  if (strcmp(format, "+s") == 0) {
    shape->n_children = -1;
    return 1;
  }
  shape->has_validity = 0;
  if (strcmp(format, "+r") == 0) {
    shape->n_buffers = 0;
    shape->n_children = 2;
    return 1;
  }
  if (strncmp(format, "+ud:", 4) == 0 || strncmp(format, "+us:", 4) == 0) {
    shape->n_buffers = format[2] == 'd' ? 2 : 1;
    shape->n_children = format[4] == 0 ? 0 : 1;
    for (at = format + 4; *at != 0; at++) {
      if (*at == ',') shape->n_children++;
      if (*at != ',' && (*at < '0' || *at > '9')) return 0;
    }
    return 1;
  }
  return 0;
}

static inline int ardev_struct_check_schema_(const struct ArrowSchema* schema, const struct ardev_struct_place_* place,
                                             int depth) {
  struct ardev_struct_shape_ shape;
  struct ardev_struct_place_ below;
  int64_t index;
  int code;
  if (schema == NULL) return ardev_struct_wrong_(place, "it is NULL");
  if (schema->release == NULL) return ardev_struct_wrong_(place, "it is released");
  if (depth > ARDEV_STRUCT_DEPTH_) return ardev_struct_wrong_(place, "it is nested too deep");
  if (schema->format == NULL) return ardev_struct_wrong_(place, "format is NULL");
  if (!ardev_struct_shape_of_(schema->format, &shape)) {
    return ardev_struct_wrong_(place, "format is none of the specification");
  }
  if (schema->n_children < 0) return ardev_struct_wrong_(place, "n_children is negative");
  if (shape.n_children >= 0 && schema->n_children != shape.n_children) {
    return ardev_struct_wrong_(place, "n_children is not what the format asks for");
  }
  if (schema->n_children > 0 && schema->children == NULL) return ardev_struct_wrong_(place, "children is NULL");
  for (index = 0; index < schema->n_children; index++) {
    below = ardev_struct_below_(place, "children", index);
    code = ardev_struct_check_schema_(schema->children[index], &below, depth + 1);
    if (code != 0) return code;
  }
  if (strcmp(schema->format, "+m") == 0 &&
      (strcmp(schema->children[0]->format, "+s") != 0 || schema->children[0]->n_children != 2)) {
    return ardev_struct_wrong_(place, "the child of a map is a struct of a key and a value");
  }
  if (schema->dictionary == NULL) return 0;
  if (!shape.is_integer) return ardev_struct_wrong_(place, "there is a dictionary, and format is no integer");
  below = ardev_struct_below_(place, "dictionary", -1);
  return ardev_struct_check_schema_(schema->dictionary, &below, depth + 1);
}

static inline int ardev_struct_check_array_(const struct ArrowArray* array, const struct ArrowSchema* schema,
                                            const struct ardev_struct_place_* place) {
  struct ardev_struct_shape_ shape;
  struct ardev_struct_place_ below;
  int64_t index, end;
  int code;
  const int is_struct = strcmp(schema->format, "+s") == 0 || strncmp(schema->format, "+us", 3) == 0;
  if (array == NULL) return ardev_struct_wrong_(place, "it is NULL");
  if (array->release == NULL) return ardev_struct_wrong_(place, "it is released");
  if (array->length < 0) return ardev_struct_wrong_(place, "length is negative");
  if (array->offset < 0) return ardev_struct_wrong_(place, "offset is negative");
  if (array->offset > INT64_MAX - array->length) return ardev_struct_wrong_(place, "offset and length overflow");
  if (array->null_count < -1) return ardev_struct_wrong_(place, "null_count is less than -1");
  if (array->null_count > array->length) return ardev_struct_wrong_(place, "null_count is more than length");
  end = array->offset + array->length;
  ardev_struct_shape_of_(schema->format, &shape);
  if (shape.is_variadic ? array->n_buffers < shape.n_buffers : array->n_buffers != shape.n_buffers) {
    return ardev_struct_wrong_(place, "n_buffers is not what the format asks for");
  }
  if (array->n_buffers > 0 && array->buffers == NULL) return ardev_struct_wrong_(place, "buffers is NULL");
  if (shape.has_validity && array->null_count > 0 && array->buffers[0] == NULL) {
    return ardev_struct_wrong_(place, "there are nulls, and buffers[0], the validity bitmap, is NULL");
  }
  if (shape.has_values && end > 0 && array->buffers[1] == NULL) {
    return ardev_struct_wrong_(place, "there are elements, and buffers[1] is NULL");
  }
  for (index = shape.has_validity; !shape.has_values && index < shape.n_buffers && index < 2; index++) {
    if (array->length > 0 && array->buffers[index] == NULL) {
      return ardev_struct_wrong_(place, "there are elements, and the buffer that says where they are is NULL");
    }
  }
  if (array->n_children != schema->n_children) return ardev_struct_wrong_(place, "n_children is not the schema's");
  if (array->n_children > 0 && array->children == NULL) return ardev_struct_wrong_(place, "children is NULL");
  for (index = 0; index < array->n_children; index++) {
    below = ardev_struct_below_(place, "children", index);
    code = ardev_struct_check_array_(array->children[index], schema->children[index], &below);
    if (code != 0) return code;
    if (is_struct && array->children[index]->length < end) {
      return ardev_struct_wrong_(&below, "it is shorter than its parent");
    }
  }
  if (schema->dictionary == NULL) {
    return array->dictionary == NULL ? 0 : ardev_struct_wrong_(place, "the schema has no dictionary");
  }
  below = ardev_struct_below_(place, "dictionary", -1);
  return ardev_struct_check_array_(array->dictionary, schema->dictionary, &below);
}

static inline struct ardev_struct_place_ ardev_struct_root_(const char* name, char* text, size_t capacity) {
  struct ardev_struct_place_ place;
  memset(&place, 0, sizeof(place));
  place.text = text;
  place.capacity = capacity;
  snprintf(place.path, sizeof(place.path), "%s", name);
  return place;
}

static inline int ardev_schema_struct_validate(const struct ArrowSchema* schema, char* text, size_t capacity) {
  const struct ardev_struct_place_ place = ardev_struct_root_("schema", text, capacity);
  return ardev_struct_check_schema_(schema, &place, 0);
}

static inline int ardev_array_struct_validate(const struct ArrowArray* array, const struct ArrowSchema* schema,
                                              char* text, size_t capacity) {
  const struct ardev_struct_place_ place = ardev_struct_root_("array", text, capacity);
  const int code = ardev_schema_struct_validate(schema, text, capacity);
  return code != 0 ? code : ardev_struct_check_array_(array, schema, &place);
}

static inline int ardev_device_array_struct_validate(const struct ArrowDeviceArray* array,
                                                     const struct ArrowSchema* schema, char* text, size_t capacity) {
  const struct ardev_struct_place_ place = ardev_struct_root_("array", text, capacity);
  const int code = ardev_array_struct_validate(array == NULL ? NULL : &array->array, schema, text, capacity);
  size_t index;
  if (code != 0) return code;
  if (array->device_type <= 0) return ardev_struct_wrong_(&place, "device_type is no type of device");
  if (array->device_type == ARROW_DEVICE_CPU && array->sync_event != NULL) {
    return ardev_struct_wrong_(&place, "sync_event of an array on the CPU is NULL");
  }
  for (index = 0; index < 3; index++) {
    if (array->reserved[index] != 0) return ardev_struct_wrong_(&place, "reserved is zero");
  }
  return 0;
}

#endif  // ARROW_DEVICE_ABI_HELPERS_H_
