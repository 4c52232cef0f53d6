/* What only a library can do wrong: end the process, hang, write to memory that it may not. And the
 * mistakes with a device that the device sees. */
#include <stdio.h>
#include <unistd.h>

#include "right.c"

int crashes(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  (void)schema;
  (void)array;
  *(volatile int*)16 = 1;
  return 0;
}

int aborts(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  (void)schema;
  (void)array;
  fprintf(stderr, "assertion failed: somewhere\n");
  abort();
}

int exits(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  (void)schema;
  (void)array;
  exit(0);
}

int hangs(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  (void)schema;
  (void)array;
  for (;;) pause();
}

int writes_without_end(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  (void)schema;
  (void)array;
  for (;;) fprintf(stderr, "still at it, and at it, and at it, and at it, and at it\n");
}

int refuses(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  (void)schema;
  (void)array;
  return ENOTSUP;
}

/* Says that what it has only submitted is there. */
int loses_event(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  int code = produce(schema, array);
  array->sync_event = NULL;
  return code;
}

/* Records before it submits. */
int records_early(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  struct Numbers* numbers;
  int code = produce(schema, array);
  if (code != 0 || device == NULL) return code;
  numbers = array->array.private_data;
  return device->copy_to_device(device, numbers->queue, numbers->memory, values, sizeof values);
}

static void release_and_forget(struct ArrowArray* array) {
  struct Numbers* numbers = array->private_data;
  if (numbers->device != NULL) {
    numbers->device->synchronize(numbers->device, numbers->queue);
    numbers->device->free(numbers->device, numbers->memory, sizeof values);
    numbers->device->close_queue(numbers->device, numbers->queue);
  }
  free(numbers);
  array->release = NULL;
}

int forgets_event(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  int code = produce(schema, array);
  array->array.release = release_and_forget;
  return code;
}

static void release_late(struct ArrowArray* array) {
  struct Numbers* numbers = array->private_data;
  if (numbers->device != NULL) numbers->memory = NULL;
  release_numbers(array);
}

int forgets_memory(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  int code = produce(schema, array);
  array->array.release = release_late;
  return code;
}

/* Puts host memory into an array on a device. */
int forgets_device(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  int code = produce(schema, array);
  struct Numbers* numbers = array->array.private_data;
  numbers->buffers[1] = values;
  return code;
}

/* Takes all and looks at nothing, as it may. */
int takes(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  array->array.release(&array->array);
  schema->release(schema);
  return 0;
}

/* Reads whatever the buffers point to. */
int reads_on_host(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  const struct ArrowArray* first = array->array.n_children > 0 ? array->array.children[0] : &array->array;
  volatile char byte = *(const char*)first->buffers[first->n_buffers - 1];
  (void)byte;
  return takes(schema, array);
}

/* Copies, and waits as it is told, from a batch whose first column is numbers. */
enum Waits { NEVER, ELSEWHERE, RIGHT };

static int copy_first(struct ArrowDeviceArray* array, enum Waits waits) {
  char copy[8];
  void *queue, *other;
  int code = device->open_queue(device, &queue);
  if (waits == RIGHT) code = device->wait(device, queue, array->sync_event);
  if (waits == ELSEWHERE && device->open_queue(device, &other) == 0) {
    device->wait(device, other, array->sync_event);
    device->close_queue(device, other);
  }
  if (code == 0) code = device->copy_to_host(device, queue, copy, array->array.children[0]->buffers[1], sizeof copy);
  if (code == 0) code = device->synchronize(device, queue);
  device->close_queue(device, queue);
  return code;
}

static int copy_and_release(struct ArrowSchema* schema, struct ArrowDeviceArray* array, enum Waits waits) {
  int code = 0;
  if (device != NULL && array->device_id == device->device_id) code = copy_first(array, waits);
  return code == 0 ? takes(schema, array) : code;
}

int never_waits(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  return copy_and_release(schema, array, NEVER);
}
int waits_elsewhere(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  return copy_and_release(schema, array, ELSEWHERE);
}
int waits(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  return copy_and_release(schema, array, RIGHT);
}

int releases_early(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  static char copy[8];
  static void* queue;
  if (device != NULL && array->device_id == device->device_id) {
    if (device->open_queue(device, &queue) != 0) return EIO;
    device->wait(device, queue, array->sync_event);
    device->copy_to_host(device, queue, copy, array->array.children[0]->buffers[1], sizeof copy);
  }
  return takes(schema, array);
}

/* Forgets a little with each stream. */
static void release_most(struct ArrowDeviceArrayStream* stream) { stream->release = NULL; }

int leaky_stream(struct ArrowDeviceArrayStream* out) {
  int code = stream_to(out, 0);
  out->release = release_most;
  return code;
}

static int get_next_elsewhere(struct ArrowDeviceArrayStream* stream, struct ArrowDeviceArray* out) {
  int code = get_next(stream, out);
  out->device_type = ARROW_DEVICE_CUDA;
  return code;
}

int stray_stream(struct ArrowDeviceArrayStream* out) {
  int code = stream_to(out, 0);
  out->get_next = get_next_elsewhere;
  return code;
}

/* Says where the data would be, and then that there is none. */
int writes_early(struct ArrowSchema* schema, struct ArrowDeviceArray* array) { return produce(schema, array); }

int writes_early_failing(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  (void)schema;
  array->device_type = ARROW_DEVICE_CPU;
  array->device_id = -1;
  return EIO;
}

static void release_host(struct ArrowArray* array) { array->release = NULL; }

/* Keys where the device is, and what they lead to on the host. */
static int with_dictionary(struct ArrowSchema* schema, struct ArrowDeviceArray* array, int is_on_host) {
  static const void* buffers[2];
  static struct ArrowArray host;
  static struct ArrowSchema values_schema;
  int code = produce(schema, array);
  if (code != 0) return code;
  /* On the device these are the keys, which are numbers as well. */
  buffers[1] = is_on_host ? values : array->array.buffers[1];
  memset(&host, 0, sizeof host);
  /* One more than the greatest key. */
  host.length = 5;
  host.n_buffers = 2;
  host.buffers = buffers;
  host.release = release_host;
  schema_to(&values_schema);
  array->array.dictionary = &host;
  array->array.length = 4;
  schema->dictionary = &values_schema;
  return 0;
}

int dictionary_on_host(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  return with_dictionary(schema, array, 1);
}
int dictionary_with_the_keys(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  return with_dictionary(schema, array, 0);
}

/* Counts what nobody has counted, wherever that is. */
static void count(const struct ArrowArray* array) {
  int64_t i;
  if (array->null_count == -1 && array->n_buffers > 0 && array->buffers[0] != NULL) {
    volatile char byte = *(const char*)array->buffers[0];
    (void)byte;
  }
  for (i = 0; i < array->n_children; i++) count(array->children[i]);
}

int counts_nulls(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  count(&array->array);
  return takes(schema, array);
}

/* Wants to know how long text is before it waits for it. */
static int read_offsets(struct ArrowSchema* schema, struct ArrowDeviceArray* array, int waits_first) {
  int32_t last;
  void* queue;
  int64_t i;
  int code = 0;
  for (i = 0; device != NULL && array->device_id == device->device_id && i < schema->n_children; i++) {
    const struct ArrowArray* child = array->array.children[i];
    if (strcmp(schema->children[i]->format, "u") != 0) continue;
    code = device->open_queue(device, &queue);
    if (code == 0 && waits_first) code = device->wait(device, queue, array->sync_event);
    if (code == 0) code = device->copy_to_host(device, queue, &last, child->buffers[1], sizeof last);
    if (code == 0) code = device->synchronize(device, queue);
    device->close_queue(device, queue);
  }
  return code == 0 ? takes(schema, array) : code;
}

int reads_offsets_early(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  return read_offsets(schema, array, 0);
}
int reads_offsets(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  return read_offsets(schema, array, 1);
}

/* Was built without Metal, and does not think of that. */
int crashes_on_metal(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  if (array->device_type == ARROW_DEVICE_METAL) *(volatile int*)16 = 1;
  return takes(schema, array);
}
