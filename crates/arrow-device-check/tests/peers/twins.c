/* Twins: for each mistake a peer that makes it, and one that is the same without it. The name of
 * the right one ends with `_right`. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "right.c"

/* ---- arrays on the host */

struct Owner {
  const void* buffers[2];
  int32_t* data;
  pthread_t maker;
  struct ArrowArray child;
  struct ArrowArray* children[1];
  int frees_child;
};

static void release_owner(struct ArrowArray* array) {
  struct Owner* owner = array->private_data;
  if (owner->child.release != NULL) owner->child.release(&owner->child);
  /* The mistake: the child may be somebody else's by now. */
  if (owner->frees_child) {
    free(owner->data);
    free(owner->child.buffers);
  }
  free(owner);
  array->release = NULL;
}

static void release_child(struct ArrowArray* array) {
  free((void*)array->buffers[1]);
  free(array->buffers);
  array->release = NULL;
}

static void release_nothing(struct ArrowArray* array) { array->release = NULL; }

static int32_t* five(int32_t first) {
  int32_t* data = malloc(5 * sizeof *data);
  int i;
  for (i = 0; data != NULL && i < 5; i++) data[i] = first + i;
  return data;
}

static void on_host(struct ArrowDeviceArray* out) {
  memset(out, 0, sizeof *out);
  out->device_type = ARROW_DEVICE_CPU;
  out->device_id = -1;
}

static struct ArrowSchema column, *columns[1] = {&column};

static void batch_schema_to(struct ArrowSchema* schema, int64_t flags) {
  memset(schema, 0, sizeof *schema);
  memset(&column, 0, sizeof column);
  column.format = "i";
  column.name = "number";
  column.flags = flags;
  column.release = release_schema;
  schema->format = "+s";
  schema->name = "";
  schema->n_children = 1;
  schema->children = columns;
  schema->release = release_schema;
}

static int batch_to(struct ArrowSchema* schema, struct ArrowDeviceArray* out, int frees_child) {
  struct Owner* owner = calloc(1, sizeof *owner);
  const void** buffers = calloc(2, sizeof *buffers);
  if (owner == NULL || buffers == NULL) return ENOMEM;
  owner->data = five(1);
  owner->frees_child = frees_child;
  buffers[1] = owner->data;
  owner->child.length = 5;
  owner->child.n_buffers = 2;
  owner->child.buffers = buffers;
  owner->child.release = frees_child ? release_nothing : release_child;
  owner->children[0] = &owner->child;
  on_host(out);
  out->array.length = 5;
  out->array.n_buffers = 1;
  out->array.buffers = owner->buffers;
  out->array.n_children = 1;
  out->array.children = owner->children;
  out->array.release = release_owner;
  out->array.private_data = owner;
  batch_schema_to(schema, ARROW_FLAG_NULLABLE);
  return 0;
}

int children_go_with_parent(struct ArrowSchema* schema, struct ArrowDeviceArray* out) {
  return batch_to(schema, out, 1);
}
int children_go_with_parent_right(struct ArrowSchema* schema, struct ArrowDeviceArray* out) {
  return batch_to(schema, out, 0);
}

/* Fields that may have no nulls. */
static int with_null(struct ArrowSchema* schema, struct ArrowDeviceArray* out, int64_t flags) {
  static const uint8_t bitmap[1] = {0x1d};
  int code = batch_to(schema, out, 0);
  if (code != 0) return code;
  out->array.children[0]->buffers[0] = bitmap;
  out->array.children[0]->null_count = 1;
  column.flags = flags;
  return 0;
}

int nulls_in_a_field_without(struct ArrowSchema* schema, struct ArrowDeviceArray* out) {
  return with_null(schema, out, 0);
}
int nulls_in_a_field_without_right(struct ArrowSchema* schema, struct ArrowDeviceArray* out) {
  return with_null(schema, out, ARROW_FLAG_NULLABLE);
}

/* One buffer for all arrays. */
static void release_five(struct ArrowArray* array) {
  struct Owner* owner = array->private_data;
  free(owner->data);
  free(owner);
  array->release = NULL;
}

static int numbers_on_host(struct ArrowDeviceArray* out, int32_t* shared) {
  static int32_t next = 0;
  struct Owner* owner = calloc(1, sizeof *owner);
  int i;
  if (owner == NULL) return ENOMEM;
  next++;
  for (i = 0; shared != NULL && i < 5; i++) shared[i] = next + i;
  owner->data = shared == NULL ? five(next) : NULL;
  owner->buffers[1] = shared == NULL ? owner->data : shared;
  owner->maker = pthread_self();
  on_host(out);
  out->array.length = 5;
  out->array.n_buffers = 2;
  out->array.buffers = owner->buffers;
  out->array.release = release_five;
  out->array.private_data = owner;
  return 0;
}

static int32_t shared_numbers[5];

int reuses_its_buffer(struct ArrowSchema* schema, struct ArrowDeviceArray* out) {
  schema_to(schema);
  return numbers_on_host(out, shared_numbers);
}
int reuses_its_buffer_right(struct ArrowSchema* schema, struct ArrowDeviceArray* out) {
  schema_to(schema);
  return numbers_on_host(out, NULL);
}

/* A release that works on one thread alone. */
static void release_on_its_thread(struct ArrowArray* array) {
  struct Owner* owner = array->private_data;
  if (!pthread_equal(owner->maker, pthread_self())) {
    fprintf(stderr, "this pool is another thread's\n");
    abort();
  }
  release_five(array);
}

int needs_its_thread(struct ArrowSchema* schema, struct ArrowDeviceArray* out) {
  int code = numbers_on_host(out, NULL);
  schema_to(schema);
  out->array.release = release_on_its_thread;
  return code;
}
int needs_its_thread_right(struct ArrowSchema* schema, struct ArrowDeviceArray* out) {
  schema_to(schema);
  return numbers_on_host(out, NULL);
}

/* ---- arrays on a device */

static void release_at_once(struct ArrowArray* array) {
  struct Numbers* numbers = array->private_data;
  if (numbers->device != NULL) {
    if (numbers->event != NULL) numbers->device->destroy_event(numbers->device, numbers->event);
    numbers->device->free(numbers->device, numbers->memory, sizeof values);
    numbers->device->close_queue(numbers->device, numbers->queue);
  }
  free(numbers);
  array->release = NULL;
}

int frees_without_waiting(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  int code = produce(schema, array);
  array->array.release = release_at_once;
  return code;
}
int frees_without_waiting_right(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  return produce(schema, array);
}

/* What is wrong on a device is found when the data is read, and is no event that was not waited
 * for. Each array below is made of the memory of one array of numbers, which holds these bytes. */
struct Made {
  int shares;
  struct ArrowArray numbers;
  const void* buffers[3];
  struct ArrowArray children[2];
  struct ArrowArray* pointers[2];
};

static void drop_share(struct Made* made) {
  if (__sync_sub_and_fetch(&made->shares, 1) > 0) return;
  made->numbers.release(&made->numbers);
  free(made);
}

static void release_made(struct ArrowArray* array) {
  int64_t i;
  for (i = 0; i < array->n_children; i++) {
    if (array->children[i]->release != NULL) array->children[i]->release(array->children[i]);
  }
  array->release = NULL;
  drop_share(array->private_data);
}

/* Each of the three buffers is the memory, but for the first. */
static int made_of(struct ArrowSchema* schema, struct ArrowDeviceArray* array, const int32_t bytes[5],
                   const char* format) {
  struct Made* made = calloc(1, sizeof *made);
  int code = made == NULL ? ENOMEM : produce(schema, array);
  struct Numbers* numbers;
  if (code != 0) return code;
  numbers = array->array.private_data;
  if (device == NULL) {
    numbers->buffers[1] = bytes;
  } else {
    code = device->copy_to_device(device, numbers->queue, numbers->memory, bytes, sizeof values);
    if (code == 0 && numbers->event == NULL) code = device->synchronize(device, numbers->queue);
    if (code == 0 && numbers->event != NULL) {
      device->destroy_event(device, numbers->event);
      code = device->record(device, numbers->queue, &numbers->event);
      array->sync_event = numbers->event;
    }
  }
  made->shares = 1;
  made->numbers = array->array;
  made->buffers[1] = made->buffers[2] = numbers->buffers[1];
  array->array.buffers = made->buffers;
  array->array.private_data = made;
  array->array.release = release_made;
  schema->format = format;
  return code;
}

/* Four texts. The bytes that the right offsets name are zeros, and the lowest of the second
   number. */
static int text_to(struct ArrowSchema* schema, struct ArrowDeviceArray* array, const int32_t offsets[5]) {
  int code = made_of(schema, array, offsets, "u");
  if (code != 0) return code;
  array->array.n_buffers = 3;
  array->array.length = 4;
  return 0;
}

int wrong_offsets(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  static const int32_t offsets[5] = {0, 4, 2, 3, 5};
  return text_to(schema, array, offsets);
}
int wrong_offsets_right(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  return text_to(schema, array, values);
}

/* Five numbers whose bitmap is their own first byte: one is there, and four are null. */
static int counted_to(struct ArrowSchema* schema, struct ArrowDeviceArray* array, int64_t nulls) {
  int code = made_of(schema, array, values, "i");
  struct Made* made = array->array.private_data;
  if (code != 0) return code;
  made->buffers[0] = made->buffers[1];
  array->array.null_count = nulls;
  return 0;
}

int wrong_counts(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  return counted_to(schema, array, 1);
}
int wrong_counts_right(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  return counted_to(schema, array, 4);
}

/* One view, and no buffer of bytes: the last buffer has the lengths of none. */
static int view_to(struct ArrowSchema* schema, struct ArrowDeviceArray* array, const int32_t view[5]) {
  int code = made_of(schema, array, view, "vu");
  if (code != 0) return code;
  array->array.n_buffers = 3;
  array->array.length = 1;
  return 0;
}

/* Thirteen bytes in a buffer that is not there. */
int wrong_views(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  static const int32_t view[5] = {13, 0x64636261, 3, 0, 0};
  return view_to(schema, array, view);
}
int wrong_views_right(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  static const int32_t view[5] = {4, 0x64636261, 0, 0, 0};
  return view_to(schema, array, view);
}

/* Five runs, whose ends are their values too. */
static int runs_to(struct ArrowSchema* schema, struct ArrowDeviceArray* array, const int32_t ends[5]) {
  static struct ArrowSchema fields[2], *pointers[2] = {&fields[0], &fields[1]};
  int code = made_of(schema, array, ends, "+r");
  struct Made* made = array->array.private_data;
  int i;
  if (code != 0) return code;
  for (i = 0; i < 2; i++) {
    schema_to(&fields[i]);
    fields[i].name = i == 0 ? "run_ends" : "values";
    fields[i].flags = i == 0 ? 0 : ARROW_FLAG_NULLABLE;
    made->children[i] = array->array;
    made->pointers[i] = &made->children[i];
  }
  made->shares = 3;
  schema->n_children = array->array.n_children = 2;
  schema->children = pointers;
  array->array.children = made->pointers;
  array->array.n_buffers = 0;
  array->array.buffers = NULL;
  return 0;
}

int wrong_run_ends(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  static const int32_t ends[5] = {1, 4, 3, 4, 5};
  return runs_to(schema, array, ends);
}
int wrong_run_ends_right(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  return runs_to(schema, array, values);
}

/* ---- streams */

static int end_untouched(struct ArrowDeviceArrayStream* stream, struct ArrowDeviceArray* out) {
  struct Stream* state = stream->private_data;
  return state->left == 0 ? 0 : get_next(stream, out);
}

int leaves_the_end_untold(struct ArrowDeviceArrayStream* out) {
  int code = stream_to(out, 0);
  out->get_next = end_untouched;
  return code;
}
int leaves_the_end_untold_right(struct ArrowDeviceArrayStream* out) { return stream_to(out, 0); }

static int next_shared(struct ArrowDeviceArrayStream* stream, struct ArrowDeviceArray* out) {
  struct Stream* state = stream->private_data;
  out->array.release = NULL;
  if (state->left == 0) return 0;
  state->left--;
  return numbers_on_host(out, shared_numbers);
}

static int next_own(struct ArrowDeviceArrayStream* stream, struct ArrowDeviceArray* out) {
  struct Stream* state = stream->private_data;
  out->array.release = NULL;
  if (state->left == 0) return 0;
  state->left--;
  return numbers_on_host(out, NULL);
}

static int stream_on_host(struct ArrowDeviceArrayStream* out) {
  int code = stream_to(out, 0);
  out->device_type = ARROW_DEVICE_CPU;
  return code;
}

int reuses_its_buffer_in_a_stream(struct ArrowDeviceArrayStream* out) {
  int code = stream_on_host(out);
  out->get_next = next_shared;
  return code;
}
int reuses_its_buffer_in_a_stream_right(struct ArrowDeviceArrayStream* out) {
  int code = stream_on_host(out);
  out->get_next = next_own;
  return code;
}

/* The data of all arrays belongs to the stream. */
static void clear_and_release(struct ArrowDeviceArrayStream* stream) {
  memset(shared_numbers, 0xff, sizeof shared_numbers);
  release_stream(stream);
}

static int next_of_stream(struct ArrowDeviceArrayStream* stream, struct ArrowDeviceArray* out) {
  static const int32_t start[5] = {1, 2, 3, 4, 5};
  struct Stream* state = stream->private_data;
  int code;
  out->array.release = NULL;
  if (state->left == 0) return 0;
  state->left--;
  code = numbers_on_host(out, shared_numbers);
  memcpy(shared_numbers, start, sizeof start);
  return code;
}

int data_goes_with_the_stream(struct ArrowDeviceArrayStream* out) {
  int code = stream_on_host(out);
  out->get_next = next_of_stream;
  out->release = clear_and_release;
  return code;
}
int data_goes_with_the_stream_right(struct ArrowDeviceArrayStream* out) {
  int code = stream_on_host(out);
  out->get_next = next_of_stream;
  return code;
}

/* ---- consumers */

/* Takes all that it can read: batches on the host. */
static int take(struct ArrowSchema* schema, struct ArrowDeviceArray* array, int reads_late, int reads_on) {
  struct ArrowSchema my_schema = *schema;
  struct ArrowDeviceArray mine = *array;
  const volatile char* first = NULL;
  int64_t i;
  schema->release = NULL;
  array->array.release = NULL;
  for (i = 0; mine.device_type == ARROW_DEVICE_CPU && i < mine.array.n_children; i++) {
    const struct ArrowArray* child = mine.array.children == NULL ? NULL : mine.array.children[i];
    if (child == NULL || child->n_buffers < 2 || child->buffers == NULL || child->length < 1) continue;
    first = child->buffers[1];
    if (first != NULL) break;
  }
  if (first != NULL) (void)first[0];
  if (first != NULL && reads_on) (void)first[4096];
  mine.array.release(&mine.array);
  my_schema.release(&my_schema);
  if (first != NULL && reads_late) (void)first[0];
  return 0;
}

int reads_after_the_release(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  return take(schema, array, 1, 0);
}
int reads_after_the_release_right(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  return take(schema, array, 0, 0);
}
int reads_behind_the_end(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  return take(schema, array, 0, 1);
}
int reads_behind_the_end_right(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  return take(schema, array, 0, 0);
}

/* ---- tensors */

/* Never calls the deleter, which takes its time to be seen. */
int never_deletes(DLManagedTensorVersioned* tensor) {
  (void)tensor;
  return 0;
}
/* Reads nothing, and refuses what it does not know. */
int never_deletes_right(DLManagedTensorVersioned* tensor) {
  const DLTensor* it = &tensor->dl_tensor;
  int32_t i;
  int code = tensor->version.major != 1 || it->ndim < 0 || (it->ndim > 0 && it->shape == NULL) ? EINVAL : 0;
  for (i = 0; code == 0 && i < it->ndim; i++) code = it->shape[i] < 0 ? EINVAL : 0;
  if (tensor->deleter != NULL) tensor->deleter(tensor);
  return code;
}

static int32_t writable[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static int tensor_of(DLManagedTensorVersioned** out, void* data, uint64_t flags) {
  int code = produce_tensor(out);
  if (code != 0) return code;
  (*out)->dl_tensor.data = data;
  (*out)->flags = flags;
  return 0;
}

int strides_of_null(DLManagedTensorVersioned** out) {
  int code = tensor_of(out, writable, 0);
  (*out)->dl_tensor.strides = NULL;
  return code;
}
/* An older version may. */
int strides_of_null_right(DLManagedTensorVersioned** out) {
  int code = strides_of_null(out);
  (*out)->version.minor = 1;
  return code;
}

int constants_that_look_writable(DLManagedTensorVersioned** out) { return tensor_of(out, (void*)values, 0); }
int constants_that_look_writable_right(DLManagedTensorVersioned** out) { return tensor_of(out, (void*)values, 1); }

/* Deleted before it is handed out. */
int dangling_data(DLManagedTensorVersioned** out) {
  int32_t* data = five(1);
  int code = tensor_of(out, data, 0);
  free(data);
  return code;
}

static void delete_with_data(DLManagedTensorVersioned* tensor) {
  free(tensor->dl_tensor.data);
  free(tensor);
}
int dangling_data_right(DLManagedTensorVersioned** out) {
  int code = tensor_of(out, five(1), 0);
  (*out)->deleter = delete_with_data;
  return code;
}

int a_copy_that_is_none(DLManagedTensorVersioned** out) { return tensor_of(out, writable, 2); }
int a_copy_that_is_none_right(DLManagedTensorVersioned** out) {
  int code = dangling_data_right(out);
  (*out)->flags = 2;
  return code;
}

/* Elements at the end of a mapping, which the offset or the strides lead out of. */
static void* last_page(size_t bytes) {
  static char* end = NULL;
  if (end == NULL) {
    char* pages = aligned_alloc((size_t)1 << 21, (size_t)1 << 22);
    long at = sysconf(_SC_PAGESIZE);
    (void)at;
    end = pages == NULL ? NULL : pages + ((size_t)1 << 22);
  }
  return end == NULL ? NULL : end - bytes;
}

int an_offset_past_the_end(DLManagedTensorVersioned** out) {
  int code = tensor_of(out, last_page(20), 0);
  (*out)->dl_tensor.byte_offset = (uint64_t)1 << 40;
  return code;
}
int an_offset_past_the_end_right(DLManagedTensorVersioned** out) {
  int code = tensor_of(out, last_page(24), 0);
  (*out)->dl_tensor.byte_offset = 4;
  return code;
}

int strides_past_the_end(DLManagedTensorVersioned** out) {
  static int64_t far[2] = {5, (int64_t)1 << 32};
  int code = tensor_of(out, last_page(20), 0);
  (*out)->dl_tensor.strides = far;
  return code;
}
int strides_past_the_end_right(DLManagedTensorVersioned** out) { return tensor_of(out, last_page(20), 0); }

/* ---- memory that only a tool sees */

/* The last element lies behind the allocation, where there is memory all the same. */
static int tensor_on_heap(DLManagedTensorVersioned** out, size_t elements, uint64_t byte_offset) {
  int code = tensor_of(out, calloc(elements, sizeof(int32_t)), 0);
  (*out)->dl_tensor.byte_offset = byte_offset;
  (*out)->deleter = delete_with_data;
  return code;
}
int an_element_behind_the_allocation(DLManagedTensorVersioned** out) { return tensor_on_heap(out, 5, 4); }
int an_element_behind_the_allocation_right(DLManagedTensorVersioned** out) { return tensor_on_heap(out, 6, 4); }

static int numbers_of(struct ArrowSchema* schema, struct ArrowDeviceArray* out, size_t elements) {
  int code = numbers_on_host(out, NULL);
  struct Owner* owner = out->array.private_data;
  schema_to(schema);
  free(owner->data);
  owner->data = calloc(elements, sizeof(int32_t));
  owner->buffers[1] = owner->data;
  return code;
}
int a_buffer_that_is_too_short(struct ArrowSchema* schema, struct ArrowDeviceArray* out) {
  return numbers_of(schema, out, 4);
}
int a_buffer_that_is_too_short_right(struct ArrowSchema* schema, struct ArrowDeviceArray* out) {
  return numbers_of(schema, out, 5);
}

/* What was read: valgrind leaves out a read whose value nobody uses. */
static volatile char last_read;

/* The last of the numbers, and perhaps so many bytes on. */
static int take_last(struct ArrowSchema* schema, struct ArrowDeviceArray* array, int64_t more) {
  const struct ArrowArray* child = array->array.n_children > 0 ? array->array.children[0] : NULL;
  if (array->device_type == ARROW_DEVICE_CPU && child != NULL && strcmp(schema->children[0]->format, "l") == 0) {
    const volatile char* first = child->buffers[1];
    last_read = first[(child->offset + child->length) * (int64_t)sizeof(int64_t) - 1 + more];
  }
  return take(schema, array, 0, 0);
}
int reads_a_little_too_far(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  return take_last(schema, array, 1);
}
int reads_a_little_too_far_right(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  return take_last(schema, array, 0);
}

/* Reads the tensor that it is given, and perhaps too late. */
static int read_tensor(DLManagedTensorVersioned* tensor, int is_deleted_first) {
  const DLTensor* it = &tensor->dl_tensor;
  const volatile char* first = NULL;
  if (tensor->version.major == 1 && it->device.device_type == kDLCPU && it->ndim == 2 && it->shape != NULL &&
      it->shape[0] > 0)
    first = it->data;
  if (is_deleted_first && tensor->deleter != NULL) tensor->deleter(tensor);
  if (first != NULL) last_read = first[0];
  if (!is_deleted_first && tensor->deleter != NULL) tensor->deleter(tensor);
  return 0;
}
int reads_a_tensor_that_is_deleted(DLManagedTensorVersioned* tensor) { return read_tensor(tensor, 1); }
int reads_a_tensor_that_is_deleted_right(DLManagedTensorVersioned* tensor) { return read_tensor(tensor, 0); }

/* ---- asynchronous consumers */

struct Reader {
  struct ArrowAsyncDeviceStreamHandler handler;
  int keeps_handler;
  int keeps_arrays;
};

static int reader_schema(struct ArrowAsyncDeviceStreamHandler* self, struct ArrowSchema* schema) {
  struct ArrowSchema mine = *schema;
  schema->release = NULL;
  mine.release(&mine);
  if (self->producer == NULL) return EINVAL;
  self->producer->request(self->producer, 2);
  return 0;
}

static int reader_task(struct ArrowAsyncDeviceStreamHandler* self, struct ArrowAsyncTask* task, const char* metadata) {
  const struct Reader* reader = self->private_data;
  struct ArrowDeviceArray array;
  (void)metadata;
  if (task == NULL) return 0;
  memset(&array, 0, sizeof array);
  if (task->extract_data(task, &array) != 0) return 0;
  if (!reader->keeps_arrays) array.array.release(&array.array);
  self->producer->request(self->producer, 1);
  return 0;
}

static void reader_error(struct ArrowAsyncDeviceStreamHandler* self, int code, const char* text, const char* metadata) {
  (void)self, (void)code, (void)text, (void)metadata;
}

static void reader_release(struct ArrowAsyncDeviceStreamHandler* self) {
  struct Reader* reader = self->private_data;
  if (!reader->keeps_handler) free(reader);
}

static int reader(struct ArrowAsyncDeviceStreamHandler** out, int keeps_handler, int keeps_arrays) {
  struct Reader* made = calloc(1, sizeof *made);
  if (made == NULL) return ENOMEM;
  made->keeps_handler = keeps_handler;
  made->keeps_arrays = keeps_arrays;
  made->handler.on_schema = reader_schema;
  made->handler.on_next_task = reader_task;
  made->handler.on_error = reader_error;
  made->handler.release = reader_release;
  made->handler.private_data = made;
  *out = &made->handler;
  return 0;
}

int leaks_its_handler(struct ArrowAsyncDeviceStreamHandler** out) { return reader(out, 1, 0); }
int leaks_its_handler_right(struct ArrowAsyncDeviceStreamHandler** out) { return reader(out, 0, 0); }

int never_releases_its_arrays(struct ArrowAsyncDeviceStreamHandler** out) { return reader(out, 0, 1); }
int never_releases_its_arrays_right(struct ArrowAsyncDeviceStreamHandler** out) { return reader(out, 0, 0); }
