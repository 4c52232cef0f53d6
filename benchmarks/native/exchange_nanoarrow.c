#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nanoarrow/nanoarrow.h>
#include <nanoarrow/nanoarrow_device.h>

#include "exchange.h"

/* A view of the buffers, and what keeps them. */
struct Thing {
  struct ArrowSchema schema;
  struct ArrowDeviceArray array;
  struct ArrowDeviceArrayView view;
};

/* A view that is used again for each array of a schema, which is the best that nanoarrow can do. */
struct Known {
  struct ArrowDeviceArrayView view;
};

/* An imported array: a view, of its own or that of the schema, and the struct, which stays where it
 * is. */
struct Imported {
  struct ArrowDeviceArrayView* view;
  struct ArrowDeviceArray* array;
  struct ArrowDeviceArrayView own;
};

_Static_assert(sizeof(struct Known) <= EXCHANGE_PLACE && sizeof(struct Imported) <= EXCHANGE_PLACE, "a place is too small");

static int said(int code, const char* step, const struct ArrowError* error) {
  if (code != NANOARROW_OK) fprintf(stderr, "%s: %d %s\n", step, code, error->message);
  return code;
}

static int look(struct ArrowDeviceArrayView* view, const struct ArrowSchema* schema) {
  struct ArrowError error;
  error.message[0] = '\0';
  ArrowDeviceArrayViewInit(view);
  return said(ArrowArrayViewInitFromSchema(&view->array_view, schema, &error), "ArrowArrayViewInitFromSchema", &error);
}

static int set(struct ArrowDeviceArrayView* view, struct ArrowDeviceArray* array) {
  struct ArrowError error;
  error.message[0] = '\0';
  return said(ArrowDeviceArrayViewSetArray(view, array, &error), "ArrowDeviceArrayViewSetArray", &error);
}

void* exchange_hold(struct ArrowSchema* schema, struct ArrowDeviceArray* array, int is_batch) {
  (void)is_batch;
  struct Thing* thing = malloc(sizeof(*thing));
  if (thing == NULL || look(&thing->view, schema) != 0) return NULL;
  ArrowSchemaMove(schema, &thing->schema);
  ArrowDeviceArrayMove(array, &thing->array);
  return set(&thing->view, &thing->array) == 0 ? thing : NULL;
}

/* Nobody counts the users of these buffers, since they are never freed. A program would have to, at
 * a cost that is not measured here. */
static void keep(struct ArrowBufferAllocator* allocator, uint8_t* pointer, int64_t size) {
  (void)allocator, (void)pointer, (void)size;
}

static int set_buffers(struct ArrowArray* array, const struct ArrowArrayView* view) {
  array->length = view->length;
  array->null_count = view->null_count;
  array->offset = view->offset;
  for (int64_t i = 0; i < NANOARROW_MAX_FIXED_BUFFERS; i++) {
    if (view->layout.buffer_type[i] == NANOARROW_BUFFER_TYPE_NONE) break;
    struct ArrowBuffer buffer;
    ArrowBufferInit(&buffer);
    /* Only read. */
    buffer.data = (uint8_t*)view->buffer_views[i].data.as_uint8;
    buffer.size_bytes = view->buffer_views[i].size_bytes;
    buffer.allocator = ArrowBufferDeallocator(keep, NULL);
    NANOARROW_RETURN_NOT_OK(ArrowArraySetBuffer(array, i, &buffer));
  }
  for (int64_t i = 0; i < view->n_children; i++) {
    NANOARROW_RETURN_NOT_OK(set_buffers(array->children[i], view->children[i]));
  }
  return NANOARROW_OK;
}

int exchange_export(const void* held, struct ArrowDeviceArray* out) {
  const struct Thing* thing = held;
  const struct ArrowArrayView* view = &thing->view.array_view;
  struct ArrowArray array;
  NANOARROW_RETURN_NOT_OK(ArrowArrayInitFromArrayView(&array, view, NULL));
  NANOARROW_RETURN_NOT_OK(set_buffers(&array, view));
  NANOARROW_RETURN_NOT_OK(ArrowArrayFinishBuilding(&array, NANOARROW_VALIDATION_LEVEL_NONE, NULL));
  return ArrowDeviceArrayInit(ArrowDeviceCpu(), out, &array, NULL);
}

int exchange_export_schema(const void* held, struct ArrowSchema* out) {
  const struct Thing* thing = held;
  return ArrowSchemaDeepCopy(&thing->schema, out);
}

int exchange_know(struct ArrowSchema* schema, int is_batch, void* place) {
  (void)is_batch;
  struct Known* known = place;
  const int code = look(&known->view, schema);
  schema->release(schema);
  return code;
}

void exchange_forget(void* place) {
  struct Known* known = place;
  ArrowDeviceArrayViewReset(&known->view);
}

int exchange_import(void* known, struct ArrowDeviceArray* array, void* place) {
  struct Imported* imported = place;
  imported->view = &((struct Known*)known)->view;
  imported->array = array;
  return set(imported->view, array);
}

int exchange_import_both(struct ArrowSchema* schema, struct ArrowDeviceArray* array, int is_batch, void* place) {
  (void)is_batch;
  struct Imported* imported = place;
  imported->view = &imported->own;
  imported->array = array;
  const int code = look(&imported->own, schema);
  schema->release(schema);
  return code == 0 ? set(&imported->own, array) : code;
}

void exchange_clear(void* place) {
  struct Imported* imported = place;
  if (imported->view == &imported->own) ArrowDeviceArrayViewReset(&imported->own);
  imported->array->array.release(&imported->array->array);
}

int64_t exchange_column(const void* place, int64_t column) {
  const struct Imported* imported = place;
  return imported->view->array_view.children[column]->length;
}

int64_t exchange_number(const void* place, int64_t column, int64_t row) {
  const struct Imported* imported = place;
  const struct ArrowArrayView* view = &imported->view->array_view;
  if (view->n_children > 0) view = view->children[column];
  return ArrowArrayViewIsNull(view, row) ? -1 : ArrowArrayViewGetIntUnsafe(view, row);
}

int exchange_validate(struct ArrowSchema* schema, struct ArrowDeviceArray* array, int is_batch) {
  struct Imported imported;
  if (exchange_import_both(schema, array, is_batch, &imported) != 0) return 1;
  struct ArrowError error;
  error.message[0] = '\0';
  const int code = ArrowArrayViewValidate(&imported.view->array_view, NANOARROW_VALIDATION_LEVEL_FULL, &error);
  exchange_clear(&imported);
  return said(code, "ArrowArrayViewValidate", &error);
}
