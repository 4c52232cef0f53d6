// A producer: makes a record batch on a device and hands it over as two C structs.
//
//   ./producer          on the host
//   ./producer 4 0      on the first OpenCL device
#include <arrow_device/arrow_device.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(int code, const struct ardev_error* error) {
  if (code != 0) {
    fprintf(stderr, "%s\n", error->message);
    exit(1);
  }
}

// Builds a column of three rows from bytes of the host. The bytes are copied to the queue's device.
static struct ardev_array* column(const struct ardev_queue* queue, const struct ardev_schema* schema,
                                  int64_t null_count, const void* const* bytes, const uint64_t* sizes, size_t n) {
  struct ardev_error error;
  struct ardev_buffer* buffers[3] = {NULL, NULL, NULL};
  struct ardev_parts parts;
  struct ardev_array* array;
  size_t i;
  for (i = 0; i < n; i++) {
    if (bytes[i] != NULL) must(ardev_buffer_copy(queue, bytes[i], sizes[i], &buffers[i], &error), &error);
  }
  memset(&parts, 0, sizeof(parts));
  parts.struct_size = sizeof(parts);
  parts.schema = schema;
  parts.length = 3;
  parts.null_count = null_count;
  parts.buffers = buffers;
  parts.n_buffers = n;
  parts.queue = queue;
  must(ardev_array_build(&parts, &array, &error), &error);
  // The array keeps the bytes.
  for (i = 0; i < n; i++) ardev_buffer_free(buffers[i]);
  return array;
}

static void produce(const struct ardev_queue* queue, struct ArrowSchema* c_schema, struct ArrowDeviceArray* c_array) {
  const int64_t ids[3] = {1, 2, 3};
  const uint8_t validity[1] = {5};  // the second name is null
  const int32_t offsets[4] = {0, 3, 3, 8};
  const void* id_bytes[2] = {NULL, ids};
  const void* name_bytes[3] = {validity, offsets, "AdaGrace"};
  const uint64_t id_sizes[2] = {0, sizeof(ids)};
  const uint64_t name_sizes[3] = {sizeof(validity), sizeof(offsets), 8};
  struct ardev_error error;
  struct ardev_schema* fields[2];
  struct ardev_schema* schema;
  struct ardev_array* columns[2];
  struct ardev_array* batch;
  struct ardev_buffer* no_validity[1] = {NULL};
  struct ardev_parts parts;

  must(ardev_schema_new("l", "id", 0, NULL, 0, NULL, &fields[0], &error), &error);
  must(ardev_schema_new("u", "name", ARROW_FLAG_NULLABLE, NULL, 0, NULL, &fields[1], &error), &error);
  must(ardev_schema_new("+s", NULL, 0, (const struct ardev_schema* const*)fields, 2, NULL, &schema, &error), &error);
  columns[0] = column(queue, fields[0], 0, id_bytes, id_sizes, 2);
  columns[1] = column(queue, fields[1], 1, name_bytes, name_sizes, 3);

  memset(&parts, 0, sizeof(parts));
  parts.struct_size = sizeof(parts);
  parts.schema = schema;
  parts.length = 3;
  parts.buffers = no_validity;
  parts.n_buffers = 1;
  parts.children = (const struct ardev_array* const*)columns;
  parts.n_children = 2;
  parts.queue = queue;
  must(ardev_array_build(&parts, &batch, &error), &error);

  must(ardev_schema_export(schema, c_schema, &error), &error);
  must(ardev_array_export(batch, queue, c_array, &error), &error);
  // What was handed over keeps what it needs.
  ardev_array_free(batch);
  ardev_array_free(columns[0]);
  ardev_array_free(columns[1]);
  ardev_schema_free(schema);
  ardev_schema_free(fields[0]);
  ardev_schema_free(fields[1]);
}

int main(int argc, char** argv) {
  ArrowDeviceType device_type = argc > 2 ? (ArrowDeviceType)atoi(argv[1]) : ARROW_DEVICE_CPU;
  int64_t device_id = argc > 2 ? atoi(argv[2]) : -1;
  struct ardev_error error;
  struct ardev_device* device;
  struct ardev_queue* queue;
  struct ArrowSchema c_schema;
  struct ArrowDeviceArray c_array;

  must(ardev_device_open(device_type, device_id, &device, &error), &error);
  must(ardev_queue_open(device, &queue, &error), &error);
  produce(queue, &c_schema, &c_array);

  // From here on a consumer that knows nothing of this library, as it is on the other side of the
  // structs.
  printf("%d rows of %d columns on a device of type %d, %s\n", (int)c_array.array.length,
         (int)c_schema.n_children, (int)c_array.device_type, c_array.sync_event ? "after an event" : "ready");
  c_schema.release(&c_schema);
  c_array.array.release(&c_array.array);

  ardev_queue_free(queue);
  ardev_device_free(device);
  must(ardev_wait_until_released(10000000000, &error), &error);
  return 0;
}
