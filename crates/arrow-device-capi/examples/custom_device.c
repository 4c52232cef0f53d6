// A device of one's own: a table of functions, and everything in this library works with it.
//
// Its memory is the host's, but nothing says so, and its work is done late: copies wait in their
// queue until somebody waits for it. A real device would call its vendor's library in the same
// places.
#include <arrow_device/arrow_device.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lab;

struct work {
  struct ardev_region region;
  struct work* next;
};

struct queue {
  struct work* first;
  struct work** last;
  uint64_t submitted;  // how many copies there ever were
  uint64_t done;
  int references;  // its own until it is closed, and that of each event
};

// An event is a point in a queue: that so many copies are done. It may outlive the queue.
struct event {
  struct queue* queue;
  uint64_t point;
};

struct lab {
  pthread_mutex_t lock;
  int is_released;
};

static void run_until(struct queue* queue, uint64_t point) {
  while (queue->done < point && queue->first != NULL) {
    struct work* work = queue->first;
    const struct ardev_region* it = &work->region;
    memcpy((char*)it->to.base + it->to.offset, (char*)it->from.base + it->from.offset, (size_t)it->size);
    queue->first = work->next;
    if (queue->first == NULL) queue->last = &queue->first;
    queue->done++;
    free(work);
  }
}

static void drop_reference(struct lab* lab, struct queue* queue) {
  int is_last;
  pthread_mutex_lock(&lab->lock);
  is_last = --queue->references == 0;
  pthread_mutex_unlock(&lab->lock);
  if (is_last) free(queue);
}

static int lab_allocate(void* context, uint64_t size, void* queue, void** out) {
  (void)context;
  (void)queue;
  *out = malloc((size_t)size);
  return *out != NULL ? 0 : ENOMEM;
}

static void lab_free(void* context, void* memory, uint64_t size) {
  (void)context;
  (void)size;
  free(memory);
}

static int lab_open_queue(void* context, void** out) {
  struct queue* queue = (struct queue*)calloc(1, sizeof(*queue));
  (void)context;
  if (queue == NULL) return ENOMEM;
  queue->last = &queue->first;
  queue->references = 1;
  *out = queue;
  return 0;
}

static void lab_close_queue(void* context, void* handle) {
  struct queue* queue = (struct queue*)handle;
  struct lab* lab = (struct lab*)context;
  // What was submitted still finishes.
  pthread_mutex_lock(&lab->lock);
  run_until(queue, queue->submitted);
  pthread_mutex_unlock(&lab->lock);
  drop_reference(lab, queue);
}

static int lab_synchronize(void* context, void* handle) {
  struct queue* queue = (struct queue*)handle;
  struct lab* lab = (struct lab*)context;
  pthread_mutex_lock(&lab->lock);
  run_until(queue, queue->submitted);
  pthread_mutex_unlock(&lab->lock);
  return 0;
}

static int lab_is_idle(void* context, void* handle, int32_t* out) {
  struct queue* queue = (struct queue*)handle;
  struct lab* lab = (struct lab*)context;
  pthread_mutex_lock(&lab->lock);
  *out = queue->done == queue->submitted;
  pthread_mutex_unlock(&lab->lock);
  return 0;
}

static int lab_record(void* context, void* handle, void** out) {
  struct lab* lab = (struct lab*)context;
  struct event* event = (struct event*)malloc(sizeof(*event));
  if (event == NULL) return ENOMEM;
  pthread_mutex_lock(&lab->lock);
  event->queue = (struct queue*)handle;
  event->point = event->queue->submitted;
  event->queue->references++;
  pthread_mutex_unlock(&lab->lock);
  *out = event;
  return 0;
}

static void lab_destroy_event(void* context, void* handle) {
  struct event* event = (struct event*)handle;
  drop_reference((struct lab*)context, event->queue);
  free(event);
}

static int lab_is_complete(void* context, void* handle, int32_t* out) {
  struct event* event = (struct event*)handle;
  struct lab* lab = (struct lab*)context;
  pthread_mutex_lock(&lab->lock);
  *out = event->queue->done >= event->point;
  pthread_mutex_unlock(&lab->lock);
  return 0;
}

static int lab_wait_on_host(void* context, void* handle, int64_t timeout) {
  struct event* event = (struct event*)handle;
  struct lab* lab = (struct lab*)context;
  (void)timeout;
  pthread_mutex_lock(&lab->lock);
  run_until(event->queue, event->point);
  pthread_mutex_unlock(&lab->lock);
  return 0;
}

// The simplest way to order one queue behind another: the work it waits for is done now.
static int lab_wait(void* context, void* queue, void* event) {
  (void)queue;
  return lab_wait_on_host(context, event, -1);
}

static int lab_copy(void* context, void* handle, int32_t route, const struct ardev_region* regions, size_t n_regions) {
  struct queue* queue = (struct queue*)handle;
  struct lab* lab = (struct lab*)context;
  size_t i;
  int code = 0;
  (void)route;  // memory is memory here
  pthread_mutex_lock(&lab->lock);
  for (i = 0; i < n_regions && code == 0; i++) {
    struct work* work = (struct work*)malloc(sizeof(*work));
    if (work == NULL) {
      code = ENOMEM;
    } else {
      work->region = regions[i];
      work->next = NULL;
      *queue->last = work;
      queue->last = &work->next;
      queue->submitted++;
    }
  }
  pthread_mutex_unlock(&lab->lock);
  return code;
}

static void lab_release(void* context) {
  struct lab* lab = (struct lab*)context;
  pthread_mutex_destroy(&lab->lock);
  lab->is_released = 1;
}

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

int main(void) {
  struct lab lab;
  struct ardev_error error;
  struct ardev_driver driver;
  struct ardev_device* device;
  struct ardev_queue* queue;
  struct ardev_array *here, *there, *back;
  struct ardev_view* view;
  struct ardev_place place;
  bool is_ready;
  int32_t sum;

  memset(&lab, 0, sizeof(lab));
  pthread_mutex_init(&lab.lock, NULL);
  memset(&driver, 0, sizeof(driver));
  driver.struct_size = sizeof(driver);
  driver.device_type = ARROW_DEVICE_EXT_DEV;
  driver.device_id = 1;
  driver.name = "a lab";
  driver.context = &lab;
  driver.release = lab_release;
  driver.allocate = lab_allocate;
  driver.free = lab_free;
  driver.open_queue = lab_open_queue;
  driver.close_queue = lab_close_queue;
  driver.synchronize = lab_synchronize;
  driver.is_idle = lab_is_idle;
  driver.record = lab_record;
  driver.destroy_event = lab_destroy_event;
  driver.wait = lab_wait;
  driver.is_complete = lab_is_complete;
  driver.wait_on_host = lab_wait_on_host;
  driver.copy = lab_copy;
  must(ardev_device_register(&driver, &device, &error), &error);
  must(ardev_queue_open(device, &queue, &error), &error);

  here = numbers();
  must(ardev_array_copy(here, queue, NULL, &there, &error), &error);
  must(ardev_array_is_ready(there, &is_ready, &error), &error);
  printf("on the device, %s\n", is_ready ? "ready" : "not ready yet");
  must(ardev_array_copy(there, NULL, NULL, &back, &error), &error);
  must(ardev_view_open(back, NULL, &view, &error), &error);
  must(ardev_view_buffer(view, 1, &place, &error), &error);
  sum = ((const int32_t*)place.base)[0] + ((const int32_t*)place.base)[1] + ((const int32_t*)place.base)[2];
  printf("there and back the sum is %d\n", (int)sum);

  ardev_view_free(view);
  ardev_array_free(back);
  ardev_array_free(there);
  ardev_array_free(here);
  ardev_queue_free(queue);
  ardev_device_free(device);
  must(ardev_wait_until_released(10000000000, &error), &error);
  printf("the device is %s\n", lab.is_released ? "closed" : "still open");
  return sum == 321 && lab.is_released ? 0 : 1;
}
