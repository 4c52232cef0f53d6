#include <arrow_device/check.h>
#include <stdlib.h>
#include <string.h>

static const int32_t values[3] = {1, 2, 3};
static const void* buffers[2] = {NULL, values};

static void release_schema(struct ArrowSchema* schema) { schema->release = NULL; }
static void release_array(struct ArrowArray* array) { array->release = NULL; }

int my_produce(struct ArrowSchema* schema, struct ArrowDeviceArray* out) {
  memset(schema, 0, sizeof *schema);
  schema->format = "i"; /* int32 */
  schema->release = release_schema;

  out->array.length = 3;
  out->array.null_count = 0;
  out->array.offset = 0;
  out->array.n_buffers = 2;
  out->array.n_children = 0;
  out->array.buffers = buffers;
  out->array.children = NULL;
  out->array.dictionary = NULL;
  out->array.release = release_array;
  out->array.private_data = NULL;
  out->device_type = ARROW_DEVICE_CPU;
  out->device_id = -1;
  out->sync_event = NULL;
  return 0;
}
