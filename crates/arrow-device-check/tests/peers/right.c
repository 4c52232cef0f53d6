/* Peers in C that are right, on the host and on whatever device they are given. The array is the
 * example of docs/check.md. */
#include <arrow_device/check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct ArrowDeviceCheckContext* device = NULL;

void arrow_device_check_begin(const struct ArrowDeviceCheckContext* context) { device = context; }

static void release_schema(struct ArrowSchema* schema) { schema->release = NULL; }

/* ---- five numbers */

struct Numbers {
  const struct ArrowDeviceCheckContext* device;
  void* queue;
  void* memory;
  void* event;
  const void* buffers[2];
};

static const int32_t values[5] = {1, 2, 3, 4, 5};

static void release_numbers(struct ArrowArray* array) {
  struct Numbers* numbers = array->private_data;
  if (numbers->device != NULL) {
    numbers->device->synchronize(numbers->device, numbers->queue);
    if (numbers->event != NULL) numbers->device->destroy_event(numbers->device, numbers->event);
    numbers->device->free(numbers->device, numbers->memory, sizeof values);
    numbers->device->close_queue(numbers->device, numbers->queue);
  }
  free(numbers);
  array->release = NULL;
}

static int fill(struct Numbers* numbers) {
  int code;
  numbers->device = device;
  if (device == NULL) {
    numbers->buffers[1] = values;
    return 0;
  }
  code = device->open_queue(device, &numbers->queue);
  if (code == 0) code = device->allocate(device, sizeof values, &numbers->memory);
  if (code == 0) code = device->copy_to_device(device, numbers->queue, numbers->memory, values, sizeof values);
  if (code == 0 && device->has_events) code = device->record(device, numbers->queue, &numbers->event);
  if (code == 0 && !device->has_events) code = device->synchronize(device, numbers->queue);
  numbers->buffers[1] = numbers->memory;
  return code;
}

static int numbers_to(struct ArrowDeviceArray* out) {
  struct Numbers* numbers = calloc(1, sizeof *numbers);
  int code = numbers == NULL ? ENOMEM : fill(numbers);
  if (code != 0) return code;
  memset(out, 0, sizeof *out);
  out->array.length = 5;
  out->array.n_buffers = 2;
  out->array.buffers = numbers->buffers;
  out->array.release = release_numbers;
  out->array.private_data = numbers;
  out->device_type = device == NULL ? ARROW_DEVICE_CPU : device->device_type;
  out->device_id = device == NULL ? -1 : device->device_id;
  out->sync_event = numbers->event;
  return 0;
}

static void schema_to(struct ArrowSchema* schema) {
  memset(schema, 0, sizeof *schema);
  schema->format = "i";
  schema->name = "";
  schema->flags = ARROW_FLAG_NULLABLE;
  schema->release = release_schema;
}

int produce(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  int code = numbers_to(array);
  if (code == 0) schema_to(schema);
  return code;
}

/* Nothing can be made of it, and nothing was written. */
int produce_failing(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  (void)schema;
  (void)array;
  return EIO;
}

/* ---- three of them as a stream */

struct Stream {
  int left;
  int fails;
};

static int get_schema(struct ArrowDeviceArrayStream* stream, struct ArrowSchema* out) {
  (void)stream;
  schema_to(out);
  return 0;
}

static int get_next(struct ArrowDeviceArrayStream* stream, struct ArrowDeviceArray* out) {
  struct Stream* state = stream->private_data;
  if (state->left == 0 && state->fails) return EIO;
  if (state->left == 0) {
    out->array.release = NULL;
    return 0;
  }
  state->left--;
  return numbers_to(out);
}

static const char* get_last_error(struct ArrowDeviceArrayStream* stream) {
  (void)stream;
  return "the cable was pulled";
}

static void release_stream(struct ArrowDeviceArrayStream* stream) {
  free(stream->private_data);
  stream->release = NULL;
}

static int stream_to(struct ArrowDeviceArrayStream* out, int fails) {
  struct Stream* state = calloc(1, sizeof *state);
  if (state == NULL) return ENOMEM;
  state->left = 3;
  state->fails = fails;
  out->device_type = device == NULL ? ARROW_DEVICE_CPU : device->device_type;
  out->get_schema = get_schema;
  out->get_next = get_next;
  out->get_last_error = get_last_error;
  out->release = release_stream;
  out->private_data = state;
  return 0;
}

int produce_stream(struct ArrowDeviceArrayStream* out) { return stream_to(out, 0); }
int produce_stream_failing(struct ArrowDeviceArrayStream* out) { return stream_to(out, 1); }

/* ---- consumers */

/* Whether the structs are numbers that this consumer knows. */
static int are_numbers(const struct ArrowSchema* schema, const struct ArrowDeviceArray* array) {
  const struct ArrowArray* it = &array->array;
  if (schema->format == NULL || strcmp(schema->format, "i") != 0 || schema->dictionary != NULL) return 0;
  if (it->length < 0 || it->length > INT32_MAX || it->offset < 0 || it->offset > INT32_MAX) return 0;
  if (it->null_count < -1 || it->null_count > it->length) return 0;
  if (it->n_buffers != 2 || it->buffers == NULL || it->n_children != 0 || it->dictionary != NULL) return 0;
  if (it->length > 0 && it->buffers[1] == NULL) return 0;
  return array->device_type != ARROW_DEVICE_CPU || array->sync_event == NULL;
}

static int sum(const struct ArrowDeviceArray* array) {
  int32_t copy[64];
  const int32_t* data = array->array.buffers[1];
  uint64_t bytes = (uint64_t)(array->array.offset + array->array.length) * sizeof *copy;
  int64_t i, all = 0;
  void* queue;
  int code = 0;
  if (bytes > sizeof copy) return ENOTSUP;
  if (array->device_type != ARROW_DEVICE_CPU) {
    if (device == NULL || device->device_id != array->device_id) return ENOTSUP;
    code = device->open_queue(device, &queue);
    if (code != 0) return code;
    code = device->wait(device, queue, array->sync_event);
    if (code == 0) code = device->copy_to_host(device, queue, copy, data, bytes);
    if (code == 0) code = device->synchronize(device, queue);
    device->close_queue(device, queue);
    data = copy;
  }
  for (i = 0; code == 0 && i < array->array.length; i++) all += data[array->array.offset + i];
  return code != 0 ? code : all < 0 ? ERANGE : 0;
}

/* Takes numbers, and batches, of which it looks at nothing but the tables. */
int consume(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  struct ArrowSchema my_schema = *schema;
  struct ArrowDeviceArray mine = *array;
  int code = ENOTSUP;
  schema->release = NULL;
  array->array.release = NULL;
  if (are_numbers(&my_schema, &mine)) code = sum(&mine);
  mine.array.release(&mine.array);
  my_schema.release(&my_schema);
  return code;
}

/* ---- a tensor */

static void delete_tensor(DLManagedTensorVersioned* tensor) { free(tensor); }

int produce_tensor(DLManagedTensorVersioned** out) {
  static int64_t shape[2] = {1, 5};
  static int64_t strides[2] = {5, 1};
  DLManagedTensorVersioned* tensor = calloc(1, sizeof *tensor);
  if (tensor == NULL) return ENOMEM;
  tensor->version.major = 1;
  tensor->version.minor = 3;
  tensor->deleter = delete_tensor;
  tensor->flags = 1;
  tensor->dl_tensor.data = (void*)values;
  tensor->dl_tensor.device.device_type = kDLCPU;
  tensor->dl_tensor.ndim = 2;
  tensor->dl_tensor.dtype.bits = 32;
  tensor->dl_tensor.dtype.lanes = 1;
  tensor->dl_tensor.shape = shape;
  tensor->dl_tensor.strides = strides;
  *out = tensor;
  return 0;
}
