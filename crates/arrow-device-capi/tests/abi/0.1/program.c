// A program of version 0.1. It gives and gets every struct that has a `struct_size`, and looks
// behind each of them for what a newer library must not have written.
#include <arrow_device.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(call)                                                     \
  do {                                                                 \
    if ((call) != 0) {                                                 \
      fprintf(stderr, "line %d: %s\n", __LINE__, error.message);       \
      exit(1);                                                         \
    }                                                                  \
  } while (0)
#define CHECK(holds)                                                   \
  do {                                                                 \
    if (!(holds)) {                                                    \
      fprintf(stderr, "line %d does not hold: %s\n", __LINE__, #holds); \
      exit(1);                                                         \
    }                                                                  \
  } while (0)

#define GUARD 64
#define GUARDED(type)           \
  struct {                      \
    struct type it;             \
    unsigned char guard[GUARD]; \
  }
#define SET(guarded)                                 \
  do {                                               \
    memset(&(guarded), 0xa5, sizeof(guarded));       \
    memset(&(guarded).it, 0, sizeof((guarded).it));  \
    (guarded).it.struct_size = sizeof((guarded).it); \
  } while (0)
#define CHECK_GUARD(guarded)                                                          \
  do {                                                                                \
    size_t at;                                                                        \
    CHECK((guarded).it.struct_size == sizeof((guarded).it));                          \
    for (at = 0; at < GUARD; at++) CHECK((guarded).guard[at] == 0xa5);                 \
  } while (0)

static struct ardev_error error;

static int allocated = 0, released = 0;
static int allocate(void* context, uint64_t size, void* queue, void** out) {
  (void)context;
  (void)queue;
  allocated++;
  *out = malloc((size_t)size + 1);
  return *out == NULL ? ENOMEM : 0;
}
static void free_memory(void* context, void* memory, uint64_t size) {
  (void)context;
  (void)size;
  free(memory);
}
static void release(void* context) {
  (void)context;
  released++;
}
static int no_binding(void* context, void* memory, struct ardev_vulkan_binding* out) {
  (void)context;
  // A newer library has more room than this program knows of.
  CHECK(out->struct_size >= sizeof(*out));
  out->buffer = out->memory = memory;
  return 0;
}

static struct ardev_array* numbers;

static int next(void* context, struct ardev_array** out, struct ardev_error* failure) {
  int* left = (int*)context;
  if ((*left)-- == 0) {
    *out = NULL;
    return 0;
  }
  return ardev_array_slice(numbers, 0, 3, out, failure);
}

static void devices(void) {
  GUARDED(ardev_device_info) info;
  GUARDED(ardev_held) held;
  GUARDED(ardev_allocator) allocator;
  struct ardev_device_info rows[64];
  unsigned char after[GUARD];
  struct ardev_device *device, *own;
  struct ardev_queue* queue;
  struct ardev_buffer* buffer;
  size_t count, row;

  memset(rows, 0, sizeof(rows));
  memset(after, 0xa5, sizeof(after));
  rows[0].struct_size = sizeof(rows[0]);
  MUST(ardev_device_list(rows, 64, &count, &error));
  CHECK(count > 0 && count <= 64);
  for (row = 0; row < count; row++) {
    CHECK(rows[row].struct_size == sizeof(rows[row]) && rows[row].name[0] != 0);
  }
  MUST(ardev_device_open(ARROW_DEVICE_CPU, -1, &device, &error));
  SET(info);
  MUST(ardev_device_inspect(device, &info.it, &error));
  CHECK_GUARD(info);
  CHECK(info.it.device_type == ARROW_DEVICE_CPU && info.it.alignment >= 64);
  SET(held);
  MUST(ardev_device_held(device, &held.it, &error));
  CHECK_GUARD(held);

  SET(allocator);
  allocator.it.allocate = allocate;
  allocator.it.free = free_memory;
  allocator.it.release = release;
  MUST(ardev_device_with_allocator(device, &allocator.it, &own, &error));
  MUST(ardev_queue_open(own, &queue, &error));
  MUST(ardev_buffer_allocate(queue, 64, &buffer, &error));
  CHECK(allocated == 1);
  ardev_buffer_free(buffer);
  ardev_queue_free(queue);
  ardev_device_free(own);
  // One that says where a VkBuffer lies, though there is no Vulkan on the host.
  SET(allocator);
  allocator.it.allocate = allocate;
  allocator.it.free = free_memory;
  allocator.it.vulkan_binding = no_binding;
  MUST(ardev_device_with_allocator(device, &allocator.it, &own, &error));
  MUST(ardev_queue_open(own, &queue, &error));
  CHECK(ardev_buffer_allocate(queue, 64, &buffer, &error) != 0);
  ardev_queue_free(queue);
  ardev_device_free(own);
  ardev_device_free(device);
}

static void vulkan(void) {
  GUARDED(ardev_vulkan_handles) handles;
  struct ardev_vulkan_queue queues[2];
  GUARDED(ardev_vulkan_binding) binding;
  struct ardev_device *device, *host;
  struct ardev_buffer* buffer;
  MUST(ardev_device_open(ARROW_DEVICE_CPU, -1, &host, &error));
  memset(queues, 0, sizeof(queues));
  queues[0].struct_size = queues[1].struct_size = sizeof(queues[0]);
  queues[0].handle = &queues;
  SET(handles);
  handles.it.instance = handles.it.physical_device = handles.it.device = &queues;
  // The second queue has no handle: it is found where this version has it.
  CHECK(ardev_device_open_vulkan(&handles.it, queues, 2, 0, NULL, NULL, &device, &error) == EINVAL);
  CHECK(strstr(error.message, "queues[].handle") != NULL);
  SET(handles);
  CHECK(ardev_device_vulkan_handles(host, &handles.it, &error) != 0);
  CHECK_GUARD(handles);
  SET(binding);
  binding.it.buffer = &queues;
  CHECK(ardev_buffer_adopt_vulkan(host, &binding.it, NULL, NULL, &buffer, &error) == EINVAL);
  CHECK(strstr(error.message, "binding.memory") != NULL);
  ardev_device_free(host);
}

static void arrays(void) {
  const int64_t values[3] = {7, 8, 9};
  struct ardev_buffer* buffers[2] = {NULL, NULL};
  GUARDED(ardev_parts) parts;
  GUARDED(ardev_array_info) info;
  GUARDED(ardev_schema_info) schema_info;
  GUARDED(ardev_copy_options) options;
  GUARDED(ardev_conversion) conversion;
  GUARDED(ardev_tensor_info) tensor_info;
  struct ardev_schema* schema;
  struct ardev_array* copy;
  struct ardev_tensor* tensor;

  MUST(ardev_schema_new("l", "number", ARROW_FLAG_NULLABLE, NULL, 0, NULL, &schema, &error));
  SET(schema_info);
  MUST(ardev_schema_inspect(schema, &schema_info.it, &error));
  CHECK_GUARD(schema_info);
  CHECK(strcmp(schema_info.it.format, "l") == 0 && schema_info.it.name.size == 6);
  MUST(ardev_buffer_copy(NULL, values, sizeof(values), &buffers[1], &error));
  SET(parts);
  parts.it.schema = schema;
  parts.it.length = 3;
  parts.it.buffers = buffers;
  parts.it.n_buffers = 2;
  MUST(ardev_array_build(&parts.it, &numbers, &error));
  ardev_buffer_free(buffers[1]);
  SET(info);
  MUST(ardev_array_inspect(numbers, &info.it, &error));
  CHECK_GUARD(info);
  CHECK(info.it.length == 3 && info.it.n_buffers == 2 && info.it.device_type == ARROW_DEVICE_CPU);
  SET(options);
  options.it.flags = ARDEV_COPY_ALWAYS;
  options.it.alignment = 128;
  MUST(ardev_array_copy(numbers, NULL, &options.it, &copy, &error));
  SET(conversion);
  conversion.it.copying = ARDEV_COPYING_IF_NEEDED;
  MUST(ardev_tensor_from_array(copy, &conversion.it, &tensor, &error));
  SET(tensor_info);
  MUST(ardev_tensor_inspect(tensor, &tensor_info.it, &error));
  CHECK_GUARD(tensor_info);
  CHECK(tensor_info.it.ndim == 1 && tensor_info.it.shape[0] == 3);
  ardev_tensor_free(tensor);
  ardev_array_free(copy);
  ardev_schema_free(schema);
}

static void streams(void) {
  GUARDED(ardev_source) source;
  struct ardev_schema* schema;
  struct ardev_stream* stream;
  struct ardev_array* array;
  int left = 2, taken = 0;
  released = 0;
  MUST(ardev_array_schema(numbers, &schema, &error));
  SET(source);
  source.it.context = &left;
  source.it.next = next;
  source.it.release = release;
  MUST(ardev_stream_new(schema, ARROW_DEVICE_CPU, &source.it, &stream, &error));
  for (;; taken++) {
    MUST(ardev_stream_next(stream, &array, &error));
    if (array == NULL) break;
    ardev_array_free(array);
  }
  CHECK(taken == 2);
  ardev_stream_free(stream);
  CHECK(released == 1);
  ardev_schema_free(schema);
}

// What a table of another version looks like is told by its size alone.
static void drivers(void) {
  GUARDED(ardev_driver) driver;
  struct ardev_device* device;
  SET(driver);
  driver.it.device_type = ARROW_DEVICE_EXT_DEV;
  CHECK(ardev_device_register(&driver.it, &device, &error) == EINVAL);
  CHECK(strstr(error.message, "driver.allocate") != NULL);
  driver.it.struct_size -= sizeof(void*);
  CHECK(ardev_device_register(&driver.it, &device, &error) == EINVAL);
  CHECK(strstr(error.message, "sizeof(struct ardev_driver)") != NULL);
}

int main(void) {
  CHECK(ardev_version() >> 16 == ARDEV_VERSION_MAJOR);
  devices();
  vulkan();
  arrays();
  streams();
  drivers();
  ardev_array_free(numbers);
  MUST(ardev_wait_until_released(-1, &error));
  puts("all is well");
  return 0;
}
