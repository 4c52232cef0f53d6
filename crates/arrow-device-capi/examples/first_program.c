// A first program, written from the header and its comments alone: three numbers travel as a stream
// to whatever device there is, and are read where they arrive.
#include <arrow_device/arrow_device.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

// The numbers, one array each.
struct numbers {
  struct ardev_schema* schema;
  int64_t next;
};

static int next_number(void* context, struct ardev_array** out, struct ardev_error* error) {
  struct numbers* numbers = (struct numbers*)context;
  struct ardev_buffer* buffers[2] = {NULL, NULL};
  struct ardev_parts parts;
  int code;
  if (numbers->next > 9) {
    *out = NULL;
    return 0;
  }
  code = ardev_buffer_copy(NULL, &numbers->next, sizeof(int64_t), &buffers[1], error);
  if (code != 0) return code;
  numbers->next++;
  memset(&parts, 0, sizeof(parts));
  parts.struct_size = sizeof(parts);
  parts.schema = numbers->schema;
  parts.length = 1;
  parts.buffers = buffers;
  parts.n_buffers = 2;
  code = ardev_array_build(&parts, out, error);
  ardev_buffer_free(buffers[1]);
  return code;
}

// Opens a queue on the first device of a list that is not the host, or on the host.
static int open_queue(struct ardev_queue** out, struct ardev_error* error) {
  struct ardev_device_info infos[32];
  struct ardev_device* device;
  ArrowDeviceType device_type = ARROW_DEVICE_CPU;
  int64_t device_id = -1;
  size_t count, i;
  int code;
  memset(infos, 0, sizeof(infos));
  infos[0].struct_size = sizeof(infos[0]);
  code = ardev_device_list(infos, 32, &count, error);
  if (code != 0) return code;
  for (i = 0; i < count && i < 32; i++) {
    if (infos[i].status == 0 && infos[i].device_type != ARROW_DEVICE_CPU) {
      device_type = infos[i].device_type;
      device_id = infos[i].device_id;
      break;
    }
  }
  code = ardev_device_open(device_type, device_id, &device, error);
  if (code != 0) return code;
  code = ardev_queue_open(device, out, error);
  ardev_device_free(device);
  return code;
}

// Sends an array to the device of the queue and back, and reads its number.
static int read_number(const struct ardev_array* array, const struct ardev_queue* queue, int64_t* number,
                       struct ardev_error* error) {
  struct ardev_array *there = NULL, *back = NULL;
  struct ardev_view* view = NULL;
  struct ardev_place place;
  int code = ardev_array_copy(array, queue, NULL, &there, error);
  if (code == 0) code = ardev_array_copy(there, NULL, NULL, &back, error);
  if (code == 0) code = ardev_view_open(back, NULL, &view, error);
  if (code == 0) code = ardev_view_buffer(view, 1, &place, error);
  if (code == 0) memcpy(number, place.base, sizeof(*number));
  ardev_view_free(view);
  ardev_array_free(back);
  ardev_array_free(there);
  return code;
}

static int run(int64_t* found, struct ardev_error* error) {
  struct numbers numbers = {NULL, 7};
  struct ardev_source source;
  struct ardev_stream *made = NULL, *received = NULL;
  struct ardev_queue* queue = NULL;
  struct ardev_array* array = NULL;
  struct ArrowDeviceArrayStream c_stream;
  int i, code;

  code = ardev_schema_new("l", "number", 0, NULL, 0, NULL, &numbers.schema, error);
  memset(&source, 0, sizeof(source));
  source.struct_size = sizeof(source);
  source.context = &numbers;
  source.next = next_number;
  if (code == 0) code = ardev_stream_new(numbers.schema, ARROW_DEVICE_CPU, &source, &made, error);
  // As if the other end were another library.
  if (code == 0) code = ardev_stream_export(made, NULL, &c_stream, error);
  if (code == 0) code = ardev_stream_import(&c_stream, &received, error);
  if (code == 0) code = open_queue(&queue, error);
  for (i = 0; i < 3 && code == 0; i++) {
    code = ardev_stream_next(received, &array, error);
    if (code == 0 && array == NULL) code = EPIPE;
    if (code == 0) code = read_number(array, queue, &found[i], error);
    ardev_array_free(array);
    array = NULL;
  }
  if (code == 0) code = ardev_stream_next(received, &array, error);
  if (code == 0 && array != NULL) code = EPIPE;
  ardev_stream_free(received);
  ardev_stream_free(made);
  ardev_queue_free(queue);
  ardev_schema_free(numbers.schema);
  return code;
}

int main(void) {
  struct ardev_error error;
  int64_t found[3];
  memset(&error, 0, sizeof(error));
  if (run(found, &error) != 0) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  printf("the numbers are %d, %d and %d\n", (int)found[0], (int)found[1], (int)found[2]);
  return ardev_wait_until_released(10000000000, NULL);
}
