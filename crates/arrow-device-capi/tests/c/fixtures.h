// Arguments for every function of the header, one of each kind, all of them right. The tests leave
// one out at a time.
#ifndef FIXTURES_H
#define FIXTURES_H

#include <arrow_device/arrow_device.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int failures = 0;

// What is given with a context is released once.
static int contexts_given = 0;
static int contexts_released = 0;

static void release_context(void* context) {
  (void)context;
  contexts_released++;
}

static void check(int holds, const char* what) {
  if (!holds) {
    failures++;
    fprintf(stderr, "does not hold: %s\n", what);
  }
}

static void must(int code, const struct ardev_error* error) {
  if (code != 0) {
    fprintf(stderr, "a fixture failed: %s\n", error->message);
    exit(1);
  }
}

// ---- a device of plain host memory, whose work is done when it is submitted

static int lab_allocate(void* context, uint64_t size, void* queue, void** out) {
  (void)context;
  (void)queue;
  *out = malloc((size_t)size);
  return *out == NULL ? ENOMEM : 0;
}
static void lab_free(void* context, void* memory, uint64_t size) {
  (void)context;
  (void)size;
  free(memory);
}
static int lab_open_queue(void* context, void** out) {
  (void)context;
  *out = NULL;
  return 0;
}
static void lab_ignore(void* context, void* handle) {
  (void)context;
  (void)handle;
}
static int lab_synchronize(void* context, void* queue) {
  (void)context;
  (void)queue;
  return 0;
}
static int lab_yes(void* context, void* handle, int32_t* out) {
  (void)context;
  (void)handle;
  *out = 1;
  return 0;
}
static int lab_record(void* context, void* queue, void** out) {
  (void)context;
  (void)queue;
  *out = NULL;
  return 0;
}
static int lab_wait(void* context, void* queue, void* event) {
  (void)context;
  (void)queue;
  (void)event;
  return 0;
}
static int lab_wait_on_host(void* context, void* event, int64_t timeout) {
  (void)context;
  (void)event;
  (void)timeout;
  return 0;
}
static int lab_copy(void* context, void* queue, int32_t route, const struct ardev_region* regions, size_t n_regions) {
  size_t i;
  (void)context;
  (void)queue;
  (void)route;
  for (i = 0; i < n_regions; i++) {
    memcpy((char*)regions[i].to.base + regions[i].to.offset, (char*)regions[i].from.base + regions[i].from.offset,
           (size_t)regions[i].size);
  }
  return 0;
}

static struct ardev_driver fixture_driver(void) {
  struct ardev_driver driver;
  memset(&driver, 0, sizeof(driver));
  driver.struct_size = sizeof(driver);
  driver.device_type = ARROW_DEVICE_EXT_DEV;
  driver.device_id = 4711;
  driver.flags = ARDEV_DEVICE_NO_EVENTS;
  driver.name = "lab";
  driver.release = release_context;
  driver.allocate = lab_allocate;
  driver.free = lab_free;
  driver.open_queue = lab_open_queue;
  driver.close_queue = lab_ignore;
  driver.synchronize = lab_synchronize;
  driver.is_idle = lab_yes;
  driver.record = lab_record;
  driver.destroy_event = lab_ignore;
  driver.wait = lab_wait;
  driver.is_complete = lab_yes;
  driver.wait_on_host = lab_wait_on_host;
  driver.copy = lab_copy;
  return driver;
}

static struct ardev_allocator fixture_allocator(void) {
  struct ardev_allocator allocator;
  memset(&allocator, 0, sizeof(allocator));
  allocator.struct_size = sizeof(allocator);
  allocator.allocate = lab_allocate;
  allocator.free = lab_free;
  allocator.release = release_context;
  return allocator;
}

static int submit_nothing(void* context) {
  (void)context;
  return 0;
}

static void lock_nothing(void* context) { (void)context; }

// Handles that nobody may follow.
static struct ardev_vulkan_handles fixture_handles(void) {
  struct ardev_vulkan_handles handles;
  memset(&handles, 0, sizeof(handles));
  handles.struct_size = sizeof(handles);
  handles.instance = handles.physical_device = handles.device = &failures;
  return handles;
}

static struct ardev_vulkan_queue fixture_queues(void) {
  struct ardev_vulkan_queue queue;
  memset(&queue, 0, sizeof(queue));
  queue.struct_size = sizeof(queue);
  queue.handle = &failures;
  queue.lock = queue.unlock = lock_nothing;
  return queue;
}

static struct ardev_vulkan_binding fixture_binding(void) {
  struct ardev_vulkan_binding binding;
  memset(&binding, 0, sizeof(binding));
  binding.struct_size = sizeof(binding);
  binding.buffer = binding.memory = &failures;
  binding.size = 64;
  return binding;
}

// ---- objects that all calls share

static struct ardev_device* g_device;
static struct ardev_queue* g_queue;
static struct ardev_event* g_event;
static struct ardev_schema* g_schema;   // int64
static struct ardev_schema* g_text_type;
static struct ardev_schema* g_batch_type;
static struct ardev_schema* g_word_type;    // dictionary-encoded
static struct ardev_schema* g_tagged_type;  // with a pair of metadata
static const struct ardev_pair g_pairs[1] = {{{"key", 3}, {"value", 5}}};
static struct ardev_array* g_numbers;   // of that, two elements
static struct ardev_array* g_array;     // a batch with that as its column
static struct ardev_array* g_words;     // dictionary-encoded
static struct ardev_view* g_view;
static struct ardev_tensor* g_tensor;
static struct ardev_array* g_shareable;  // two numbers that another process could have
static struct ardev_sender* g_sender;    // whose receiver is there, and reads nothing
static struct ardev_sender* g_alone;     // whose receiver has gone
static int g_other_end;                  // that of g_sender
static const struct ardev_device* g_devices[1];
static int64_t g_bytes[2] = {7, 8};
static struct ArrowDeviceArray g_c_array;

static struct ardev_buffer* fresh_buffer(void) {
  struct ardev_error error;
  struct ardev_buffer* buffer;
  must(ardev_buffer_copy(NULL, g_bytes, sizeof(g_bytes), &buffer, &error), &error);
  return buffer;
}

static int next_array(void* context, struct ardev_array** out, struct ardev_error* error) {
  static int count = 0;
  (void)context;
  // One array, then the end.
  if (count++ % 2 != 0) {
    *out = NULL;
    return 0;
  }
  return ardev_array_slice(g_numbers, 0, 1, out, error);
}

static struct ardev_source fixture_source(void) {
  struct ardev_source source;
  memset(&source, 0, sizeof(source));
  source.struct_size = sizeof(source);
  source.next = next_array;
  source.release = release_context;
  return source;
}

static struct ardev_stream* fresh_stream(void) {
  struct ardev_error error;
  struct ardev_stream* stream;
  struct ardev_source source = fixture_source();
  contexts_given++;
  must(ardev_stream_new(g_schema, ARROW_DEVICE_CPU, &source, &stream, &error), &error);
  return stream;
}

// The consumer of the handler that was given last.
static struct ardev_stream* g_consumer;

static struct ArrowAsyncDeviceStreamHandler* fresh_handler(void) {
  struct ardev_error error;
  struct ArrowAsyncDeviceStreamHandler* handler;
  must(ardev_stream_from_async(4, &handler, &g_consumer, &error), &error);
  return handler;
}

static struct ArrowSchema fresh_ArrowSchema(void) {
  struct ardev_error error;
  struct ArrowSchema c_schema;
  must(ardev_schema_export(g_schema, &c_schema, &error), &error);
  return c_schema;
}

static struct ArrowDeviceArray fresh_ArrowDeviceArray(void) {
  struct ardev_error error;
  struct ArrowDeviceArray c_array;
  must(ardev_array_export(g_numbers, NULL, &c_array, &error), &error);
  return c_array;
}

static struct ArrowArray fresh_ArrowArray(void) {
  struct ardev_error error;
  struct ArrowArray c_array;
  must(ardev_array_export_host(g_numbers, &c_array, &error), &error);
  return c_array;
}

static struct ArrowDeviceArrayStream fresh_ArrowDeviceArrayStream(void) {
  struct ardev_error error;
  struct ArrowDeviceArrayStream c_stream;
  struct ardev_stream* stream = fresh_stream();
  must(ardev_stream_export(stream, NULL, &c_stream, &error), &error);
  ardev_stream_free(stream);
  return c_stream;
}

static struct ArrowArrayStream fresh_ArrowArrayStream(void) {
  struct ardev_error error;
  struct ArrowArrayStream c_stream;
  struct ardev_stream* stream = fresh_stream();
  must(ardev_stream_export_host(stream, &c_stream, &error), &error);
  ardev_stream_free(stream);
  return c_stream;
}

static struct DLManagedTensorVersioned* fresh_DLManagedTensorVersioned(void) {
  struct ardev_error error;
  struct DLManagedTensorVersioned* c_tensor;
  must(ardev_tensor_export(g_tensor, NULL, ARDEV_COPYING_IF_NEEDED, &c_tensor, &error), &error);
  return c_tensor;
}

static struct DLManagedTensor* fresh_DLManagedTensor(void) {
  struct ardev_error error;
  struct DLManagedTensor* c_tensor;
  must(ardev_tensor_export_legacy(g_tensor, NULL, ARDEV_COPYING_IF_NEEDED, &c_tensor, &error), &error);
  return c_tensor;
}

static void connect_ends(int ends[2]) {
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
    perror("socketpair");
    exit(1);
  }
}

// A socket whose other end has gone.
static int fresh_fd(void) {
  int ends[2];
  connect_ends(ends);
  close(ends[1]);
  return ends[0];
}

static int fresh_ticket(void) {
  struct ardev_error error;
  struct ardev_sender* sender;
  int ticket;
  must(ardev_array_share(g_shareable, &ticket, &sender, &error), &error);
  ardev_sender_free(sender);
  return ticket;
}

// One to which an array came.
static struct ardev_receiver* fresh_receiver(void) {
  struct ardev_error error;
  struct ardev_receiver* receiver;
  must(ardev_receiver_new(fresh_ticket(), g_devices, 1, 0, &receiver, &error), &error);
  return receiver;
}

static struct ardev_parts fixture_parts(void) {
  static struct ardev_buffer* buffers[2];
  struct ardev_parts parts;
  memset(&parts, 0, sizeof(parts));
  parts.struct_size = sizeof(parts);
  if (buffers[1] == NULL) buffers[1] = fresh_buffer();
  parts.schema = g_schema;
  parts.length = 2;
  parts.buffers = buffers;
  parts.n_buffers = 2;
  return parts;
}

static void open_fixtures(void) {
  struct ardev_error error;
  struct ardev_parts parts;
  struct ardev_buffer* indices;
  struct ardev_buffer* index_buffers[2];
  struct ardev_buffer* no_buffers[1] = {NULL};
  const struct ardev_schema* columns[1];
  const struct ardev_array* arrays[1];
  const int8_t keys[2] = {1, 0};
  int ends[2];

  must(ardev_device_open(ARROW_DEVICE_CPU, -1, &g_device, &error), &error);
  must(ardev_queue_open(g_device, &g_queue, &error), &error);
  must(ardev_queue_record(g_queue, &g_event, &error), &error);
  must(ardev_schema_new("l", "number", ARROW_FLAG_NULLABLE, NULL, 0, NULL, &g_schema, &error), &error);
  parts = fixture_parts();
  must(ardev_array_build(&parts, &g_numbers, &error), &error);

  columns[0] = g_schema;
  must(ardev_schema_new("+s", NULL, 0, columns, 1, NULL, &g_batch_type, &error), &error);
  memset(&parts, 0, sizeof(parts));
  parts.struct_size = sizeof(parts);
  arrays[0] = g_numbers;
  parts.schema = g_batch_type;
  parts.length = 2;
  parts.buffers = no_buffers;
  parts.n_buffers = 1;
  parts.children = arrays;
  parts.n_children = 1;
  must(ardev_array_build(&parts, &g_array, &error), &error);

  must(ardev_schema_new("c", "word", 0, NULL, 0, g_schema, &g_word_type, &error), &error);
  must(ardev_buffer_copy(NULL, keys, sizeof(keys), &indices, &error), &error);
  index_buffers[0] = NULL;
  index_buffers[1] = indices;
  memset(&parts, 0, sizeof(parts));
  parts.struct_size = sizeof(parts);
  parts.schema = g_word_type;
  parts.length = 2;
  parts.buffers = index_buffers;
  parts.n_buffers = 2;
  parts.dictionary = g_numbers;
  must(ardev_array_build(&parts, &g_words, &error), &error);
  ardev_buffer_free(indices);

  must(ardev_schema_new("u", "text", 0, NULL, 0, NULL, &g_text_type, &error), &error);
  must(ardev_schema_with_metadata(g_schema, g_pairs, 1, &g_tagged_type, &error), &error);
  must(ardev_view_open(g_numbers, NULL, &g_view, &error), &error);
  must(ardev_tensor_from_array(g_numbers, NULL, &g_tensor, &error), &error);
  g_c_array = fresh_ArrowDeviceArray();

  g_devices[0] = g_device;
  must(ardev_array_to_shareable(g_numbers, g_device, &g_shareable, &error), &error);
  connect_ends(ends);
  g_other_end = ends[1];
  must(ardev_sender_new(ends[0], 0, &g_sender, &error), &error);
  must(ardev_sender_new(fresh_fd(), 0, &g_alone, &error), &error);
}

static void close_fixtures(void) {
  struct ardev_parts parts = fixture_parts();
  ardev_buffer_free(parts.buffers[1]);
  g_c_array.array.release(&g_c_array.array);
  close(g_other_end);
  // What its receiver has gone without is released here.
  if (ardev_sender_wait(g_sender, -1, NULL) != 0) failures++;
  ardev_sender_free(g_sender);
  ardev_sender_free(g_alone);
  ardev_array_free(g_shareable);
  ardev_tensor_free(g_tensor);
  ardev_view_free(g_view);
  ardev_array_free(g_words);
  ardev_array_free(g_array);
  ardev_array_free(g_numbers);
  ardev_schema_free(g_tagged_type);
  ardev_schema_free(g_word_type);
  ardev_schema_free(g_batch_type);
  ardev_schema_free(g_text_type);
  ardev_schema_free(g_schema);
  ardev_event_free(g_event);
  ardev_queue_free(g_queue);
  ardev_device_free(g_device);
}

#endif
