// A program with a device of its own: it exchanges an array of numbers with it, waits for the data
// as a consumer does that knows the event table and nothing else, and lives on when the device
// breaks.
#include "custom_device.c"

#include <stdio.h>

static void must(int code, const struct ardev_error* error) {
  if (code != 0) {
    fprintf(stderr, "%s\n", error->message);
    exit(1);
  }
}

// Three numbers in host memory.
static struct ardev_array* numbers(void) {
  const int32_t values[3] = {1, 20, 300};
  struct ardev_error error;
  struct ardev_schema* schema;
  struct ardev_buffer* buffers[2] = {NULL, NULL};
  struct ardev_parts parts;
  struct ardev_array* array;
  must(ardev_schema_new("i", NULL, 0, NULL, 0, NULL, &schema, &error), &error);
  must(ardev_buffer_copy(NULL, values, sizeof(values), &buffers[1], &error), &error);
  memset(&parts, 0, sizeof(parts));
  parts.struct_size = sizeof(parts);
  parts.schema = schema;
  parts.length = 3;
  parts.buffers = buffers;
  parts.n_buffers = 2;
  must(ardev_array_build(&parts, &array, &error), &error);
  ardev_buffer_free(buffers[1]);
  ardev_schema_free(schema);
  return array;
}

// A consumer without this library: it waits for the data by the table alone.
static int wait_for(const struct ArrowDeviceArray* array) {
  const struct event_table* event = (const struct event_table*)array->sync_event;
  if (event == NULL) return 0;  // the data is there
  if (event->magic != magic_number) return EINVAL;
  return event->wait(event, -1);
}

static bool is_closed;

static void note_release(void* context) {
  release(context);
  is_closed = true;
}

int main(void) {
  struct ardev_error error;
  struct ardev_driver driver;
  struct ardev_device* device;
  struct ardev_queue* queue;
  struct ardev_array *here, *there, *back;
  struct ArrowDeviceArray exported;
  struct ardev_view* view;
  struct ardev_place place;
  bool is_ready;
  int32_t sum;

  if (custom_device(&driver) != 0) return 1;
  driver.release = note_release;
  must(ardev_device_register(&driver, &device, &error), &error);
  must(ardev_queue_open(device, &queue, &error), &error);

  here = numbers();
  must(ardev_array_copy(here, queue, NULL, &there, &error), &error);
  must(ardev_array_is_ready(there, &is_ready, &error), &error);
  printf("on the device, %s\n", is_ready ? "ready" : "not ready yet");
  must(ardev_array_export(there, NULL, &exported, &error), &error);
  printf("a consumer waited for it: %d\n", wait_for(&exported));
  exported.array.release(&exported.array);
  must(ardev_array_copy(there, NULL, NULL, &back, &error), &error);
  must(ardev_view_open(back, NULL, &view, &error), &error);
  must(ardev_view_buffer(view, 1, &place, &error), &error);
  sum = ((const int32_t*)place.base)[0] + ((const int32_t*)place.base)[1] + ((const int32_t*)place.base)[2];
  printf("there and back the sum is %d\n", (int)sum);
  ardev_view_free(view);
  ardev_array_free(back);

  custom_device_lose(driver.context);
  if (ardev_array_copy(there, NULL, NULL, &back, &error) != ENXIO) return 1;
  printf("it broke: %s\n", error.message);

  ardev_array_free(there);
  ardev_array_free(here);
  ardev_queue_free(queue);
  ardev_device_free(device);
  must(ardev_wait_until_released(10000000000, &error), &error);
  printf("the device is %s\n", is_closed ? "closed" : "still open");
  return sum == 321 && is_closed ? 0 : 1;
}
