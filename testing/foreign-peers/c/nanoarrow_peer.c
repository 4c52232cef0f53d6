#include "nanoarrow_peer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <nanoarrow/nanoarrow.h>
#include <nanoarrow/nanoarrow_device.h>

static _Thread_local struct ArrowError last_error;

const char* adf_nano_last_error(void) { return last_error.message; }

const char* adf_nano_version(void) { return ArrowNanoarrowVersion(); }

static int failed(const char* step, int code) {
  char text[sizeof(last_error.message)];
  /* Longer words of nanoarrow are cut. */
  snprintf(text, sizeof(text), "%s: %d %.900s", step, code, last_error.message);
  memcpy(last_error.message, text, sizeof(text));
  return code;
}

static void release(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  if (schema->release != NULL) schema->release(schema);
  if (array->array.release != NULL) array->array.release(&array->array);
}

/* A view of everything that was validated. */
static int look(const struct ArrowSchema* schema, struct ArrowDeviceArray* array, struct ArrowDeviceArrayView* view) {
  int code = ArrowArrayViewInitFromSchema(&view->array_view, schema, &last_error);
  if (code != 0) return failed("ArrowArrayViewInitFromSchema", code);
  code = ArrowDeviceArrayViewSetArray(view, array, &last_error);
  if (code != 0) return failed("ArrowDeviceArrayViewSetArray", code);
  code = ArrowArrayViewValidate(&view->array_view, NANOARROW_VALIDATION_LEVEL_FULL, &last_error);
  if (code != 0) return failed("ArrowArrayViewValidate", code);
  return 0;
}

typedef int (*HandOn)(struct ArrowDeviceArrayView* view, struct ArrowDeviceArray* array, struct ArrowDeviceArray* out);

static int hand_on(HandOn how, struct ArrowSchema* schema, struct ArrowDeviceArray* array, struct ArrowSchema* out_schema,
                   struct ArrowDeviceArray* out_array) {
  struct ArrowDeviceArrayView view;
  last_error.message[0] = '\0';
  ArrowDeviceArrayViewInit(&view);
  int code = look(schema, array, &view);
  if (code == 0) code = how(&view, array, out_array);
  if (code == 0) {
    code = ArrowSchemaDeepCopy(schema, out_schema);
    if (code != 0) code = failed("ArrowSchemaDeepCopy", code);
  }
  ArrowDeviceArrayViewReset(&view);
  release(schema, array);
  return code;
}

static int copy(struct ArrowDeviceArrayView* view, struct ArrowDeviceArray* array, struct ArrowDeviceArray* out) {
  (void)array;
  int code = ArrowDeviceArrayViewCopy(view, ArrowDeviceCpu(), out);
  return code == 0 ? 0 : failed("ArrowDeviceArrayViewCopy", code);
}

static int move(struct ArrowDeviceArrayView* view, struct ArrowDeviceArray* array, struct ArrowDeviceArray* out) {
  (void)view;
  int code = ArrowDeviceArrayMoveToDevice(array, ArrowDeviceCpu(), out);
  return code == 0 ? 0 : failed("ArrowDeviceArrayMoveToDevice", code);
}

int adf_nano_copy(struct ArrowSchema* schema, struct ArrowDeviceArray* array, struct ArrowSchema* out_schema,
                  struct ArrowDeviceArray* out_array) {
  return hand_on(copy, schema, array, out_schema, out_array);
}

int adf_nano_move(struct ArrowSchema* schema, struct ArrowDeviceArray* array, struct ArrowSchema* out_schema,
                  struct ArrowDeviceArray* out_array) {
  return hand_on(move, schema, array, out_schema, out_array);
}

static int fill(struct ArrowArray* array, const struct ArrowSchema* schema, int64_t count) {
  int code = ArrowArrayInitFromSchema(array, schema, &last_error);
  if (code != 0) return failed("ArrowArrayInitFromSchema", code);
  code = ArrowArrayStartAppending(array);
  if (code != 0) return failed("ArrowArrayStartAppending", code);
  code = ArrowArrayAppendNull(array, count);
  if (code != 0) return failed("ArrowArrayAppendNull", code);
  code = ArrowArrayAppendEmpty(array, count);
  if (code != 0) return failed("ArrowArrayAppendEmpty", code);
  code = ArrowArrayFinishBuildingDefault(array, &last_error);
  return code == 0 ? 0 : failed("ArrowArrayFinishBuildingDefault", code);
}

int adf_nano_build(struct ArrowSchema* schema, int64_t count, struct ArrowSchema* out_schema,
                   struct ArrowDeviceArray* out_array) {
  struct ArrowArray array;
  memset(&array, 0, sizeof(array));
  last_error.message[0] = '\0';
  int code = fill(&array, schema, count);
  if (code == 0) code = ArrowDeviceArrayInit(ArrowDeviceCpu(), out_array, &array, NULL);
  if (code == 0) {
    ArrowSchemaMove(schema, out_schema);
  } else {
    if (array.release != NULL) array.release(&array);
    schema->release(schema);
  }
  return code;
}

int adf_nano_move_to_other_device(struct ArrowDeviceArray* array, struct ArrowDeviceArray* out_array) {
  struct ArrowDevice other;
  memset(&other, 0, sizeof(other));
  other.device_type = ARROW_DEVICE_EXT_DEV;
  other.device_id = 7;
  return ArrowDeviceArrayMoveToDevice(array, &other, out_array);
}

int adf_nano_has_metal(void) { return ArrowDeviceResolve(ARROW_DEVICE_METAL, 0) != NULL; }
