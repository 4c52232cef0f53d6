// Schemas: types with names and metadata, how they are made and how they are read.
//
// `arrow_device.h` includes this file; a program includes that one.

#ifndef ARROW_DEVICE_SCHEMA_H_
#define ARROW_DEVICE_SCHEMA_H_

#ifndef ARDEV_NULLABLE
#error "include arrow_device/arrow_device.h"
#endif

struct ardev_schema;

ARDEV_CHECK int ardev_schema_import(struct ArrowSchema* c_schema, struct ardev_schema** out,
                                    struct ardev_error* ARDEV_NULLABLE error);
ARDEV_CHECK int ardev_schema_export(const struct ardev_schema* schema, struct ArrowSchema* out,
                                    struct ardev_error* ARDEV_NULLABLE error);

// Makes a type from its format string ("l" is int64, "u" is UTF-8 text, "+s" a struct), with flags
// (ARROW_FLAG_...) and with as many children as the format demands.
ARDEV_CHECK int ardev_schema_new(const char* format, const char* ARDEV_NULLABLE name, int64_t flags,
                                 const struct ardev_schema* const* ARDEV_NULLABLE children, size_t n_children,
                                 const struct ardev_schema* ARDEV_NULLABLE dictionary, struct ardev_schema** out,
                                 struct ardev_error* ARDEV_NULLABLE error);

// The bytes of a text or of a value of metadata. No NUL is needed at their end.
struct ardev_bytes {
  const void* ARDEV_NULLABLE data;  // in a table of values, NULL is a null
  size_t size;
};

struct ardev_pair {
  struct ardev_bytes key;
  struct ardev_bytes value;
};

// The same type with these pairs in place of its metadata. The pairs are copied.
ARDEV_CHECK int ardev_schema_with_metadata(const struct ardev_schema* schema,
                                           const struct ardev_pair* ARDEV_NULLABLE pairs, size_t n_pairs,
                                           struct ardev_schema** out, struct ardev_error* ARDEV_NULLABLE error);
// The same type marked as an extension type, such as "arrow.json". The pairs of metadata that name
// the extension type are added or replaced, and other pairs stay. Without `parameters` the
// parameters are empty.
ARDEV_CHECK int ardev_schema_with_extension(const struct ardev_schema* schema, const char* name,
                                            const struct ardev_bytes* ARDEV_NULLABLE parameters,
                                            struct ardev_schema** out, struct ardev_error* ARDEV_NULLABLE error);

// What a type is. Nothing is copied: the pointers are valid as long as the schema object.
struct ardev_schema_info {
  size_t struct_size;      // rule 6
  const char* format;      // as ardev_schema_new takes it; of a dictionary's keys for such a type
  struct ardev_bytes name; // a NUL follows; no bytes where there is no name
  int64_t flags;           // ARROW_FLAG_..., and any other bits that the schema came with
  size_t n_children;
  size_t n_pairs;          // of metadata
  int32_t has_dictionary;
  int32_t is_extension;
  // Where `is_extension` is not 0: which extension type it is, and its parameters.
  struct ardev_bytes extension_name;
  struct ardev_bytes extension_parameters;
};

ARDEV_CHECK int ardev_schema_inspect(const struct ardev_schema* schema, struct ardev_schema_info* out,
                                     struct ardev_error* ARDEV_NULLABLE error);
// A pair of metadata. The pointers are valid as long as the schema object.
ARDEV_CHECK int ardev_schema_pair(const struct ardev_schema* schema, size_t index, struct ardev_pair* out,
                                  struct ardev_error* ARDEV_NULLABLE error);
ARDEV_CHECK int ardev_schema_child(const struct ardev_schema* schema, size_t index, struct ardev_schema** out,
                                   struct ardev_error* ARDEV_NULLABLE error);
// The type of the values of a dictionary.
ARDEV_CHECK int ardev_schema_dictionary(const struct ardev_schema* schema, struct ardev_schema** out,
                                        struct ardev_error* ARDEV_NULLABLE error);

// The type in words, such as `struct<id: int64>`. Texts are written as by snprintf: at most
// `capacity` bytes, with the NUL at the end, and to `size` the number of bytes that the whole text
// needs.
ARDEV_CHECK int ardev_schema_describe(const struct ardev_schema* schema, char* ARDEV_NULLABLE text, size_t capacity,
                                      size_t* size, struct ardev_error* ARDEV_NULLABLE error);
void ardev_schema_free(struct ardev_schema* ARDEV_NULLABLE schema);

#endif  // ARROW_DEVICE_SCHEMA_H_
