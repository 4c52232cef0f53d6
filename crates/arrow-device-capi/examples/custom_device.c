// A device of one's own, whole: a simulated accelerator as a table of functions.
//
// One thread does all work, one command after the other, and later than the command was submitted.
// The addresses of the memory are the accelerator's: the host crashes where it uses one. Arrays
// show the event table of extension devices, by which any consumer waits. The driver of a real
// accelerator calls the vendor's library in the same places. docs/extension-devices.md leads
// through this file, and `uses_custom_device.c` is a program with this device.
#define _POSIX_C_SOURCE 200809L  // for nanosleep
#include <arrow_device/arrow_device.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// What `sync_event` points to.
struct event_table {
  uint64_t magic;
  uint32_t version, size;
  int (*query)(const struct event_table* event);
  int (*wait)(const struct event_table* event, int64_t nanoseconds);
  int (*queue_wait)(const struct event_table* event, void* queue);
  void* context;
};
static const uint64_t magic_number = UINT64_C(0x4152524f5753494d);  // the letters ARROWSIM

// The bit in which an address of the accelerator differs from that of the host.
static const uintptr_t far_bit = (uintptr_t)(UINT64_C(1) << 55);

enum state { WORKS, DIES, IS_LOST, CLOSES };

struct accelerator {
  pthread_t worker;
  pthread_mutex_t lock;    // of all members below
  pthread_cond_t changed;  // one of them has changed
  enum state state;
  bool is_busy;  // the worker touches memory
  struct command *first, **last;
  uint64_t submitted, done;  // how many commands
};

struct command {
  struct command* next;
  int32_t route;
  size_t n_regions;  // the regions follow this struct
};

// An event has passed when the accelerator, the table's `context`, has done so many commands.
struct event {
  struct event_table table;
  uint64_t number;
};

static char* place(struct ardev_spot spot, bool is_far) {
  return (char*)((uintptr_t)spot.base ^ (is_far ? far_bit : 0)) + spot.offset;
}

static void run(const struct command* command) {
  const struct ardev_region* it = (const struct ardev_region*)(command + 1);
  const struct timespec late = {0, 20000};
  nanosleep(&late, NULL);
  for (size_t i = 0; i < command->n_regions; i++, it++)
    memcpy(place(it->to, command->route != ARDEV_ROUTE_TO_HOST),
           place(it->from, command->route != ARDEV_ROUTE_FROM_HOST), (size_t)it->size);
}

static void* work(void* context) {
  struct accelerator* device = (struct accelerator*)context;
  pthread_mutex_lock(&device->lock);
  while (device->state != CLOSES) {
    struct command* command = device->first;
    if (command == NULL || device->state == DIES) {
      pthread_cond_wait(&device->changed, &device->lock);
      continue;
    }
    if (device->state == WORKS) {  // a lost accelerator only drops its commands
      device->is_busy = true;
      pthread_mutex_unlock(&device->lock);
      run(command);
      pthread_mutex_lock(&device->lock);
      device->is_busy = false;
    }
    device->first = command->next;
    if (device->first == NULL) device->last = &device->first;
    device->done++;
    free(command);
    pthread_cond_broadcast(&device->changed);
  }
  pthread_mutex_unlock(&device->lock);
  return NULL;
}

// Changes the state, once the worker touches no memory.
static void become(struct accelerator* device, enum state state) {
  pthread_mutex_lock(&device->lock);
  device->state = DIES;
  while (device->is_busy) pthread_cond_wait(&device->changed, &device->lock);
  device->state = state;
  pthread_cond_broadcast(&device->changed);
  pthread_mutex_unlock(&device->lock);
}

// Waits until so many commands are done, or all that were submitted before. A negative time is no
// limit, and 0 does not wait. A lost device answers ENXIO to whoever asks or waits.
static int reach(struct accelerator* device, uint64_t number, int64_t nanoseconds) {
  struct timespec end;
  int code = clock_gettime(CLOCK_REALTIME, &end);
  int64_t nsec = end.tv_nsec + nanoseconds % 1000000000;
  end.tv_sec += (time_t)(nanoseconds / 1000000000 + nsec / 1000000000);
  end.tv_nsec = (long)(nsec % 1000000000);
  pthread_mutex_lock(&device->lock);
  if (number == UINT64_MAX) number = device->submitted;
  while (code == 0 && nanoseconds != 0 && device->done < number && device->state != IS_LOST)
    code = nanoseconds < 0 ? pthread_cond_wait(&device->changed, &device->lock)
                           : pthread_cond_timedwait(&device->changed, &device->lock, &end);
  code = device->state == IS_LOST ? ENXIO : device->done >= number ? 0 : ETIMEDOUT;
  pthread_mutex_unlock(&device->lock);
  return code;
}

static int event_wait(const struct event_table* table, int64_t nanoseconds) {
  return reach((struct accelerator*)table->context, ((const struct event*)table)->number, nanoseconds);
}

static int event_query(const struct event_table* table) {
  int code = event_wait(table, 0);
  return code == ETIMEDOUT ? EAGAIN : code;
}

static int allocate(void* context, uint64_t size, void* queue, void** out) {
  int code = reach((struct accelerator*)context, 0, 0);
  void* memory = size < SIZE_MAX / 2 ? aligned_alloc(64, ((size_t)size + 63) / 64 * 64) : NULL;
  *out = (void*)((uintptr_t)memory ^ far_bit);
  (void)queue;
  if (code != 0) free(memory);
  return code != 0 ? code : memory != NULL ? 0 : ENOMEM;
}

static void free_memory(void* context, void* memory, uint64_t size) {
  (void)context, (void)size, free((void*)((uintptr_t)memory ^ far_bit));
}

// All queues are one, since the accelerator does everything in one order.
static int open_queue(void* context, void** out) {
  *out = context;
  return reach((struct accelerator*)context, 0, 0);
}

static void close_queue(void* context, void* queue) { (void)context, (void)queue; }

static int synchronize(void* context, void* queue) {
  return (void)queue, reach((struct accelerator*)context, UINT64_MAX, -1);
}

static int is_idle(void* context, void* queue, int32_t* out) {
  int code = reach((struct accelerator*)queue, UINT64_MAX, 0);
  *out = code == 0;
  return (void)context, code == ETIMEDOUT ? 0 : code;
}

static int record(void* context, void* queue, void** out) {
  struct accelerator* device = (struct accelerator*)queue;
  const struct event_table table = {magic_number, 1, sizeof(table), event_query, event_wait, NULL, context};
  struct event* event = (struct event*)malloc(sizeof(*event));
  if (event == NULL) return ENOMEM;
  pthread_mutex_lock(&device->lock);
  event->table = table;
  event->number = device->submitted;
  pthread_mutex_unlock(&device->lock);
  *out = event;
  int code = reach(device, 0, 0);
  if (code != 0) free(event);
  return code;
}

static void destroy_event(void* context, void* event) { (void)context, free(event); }

// An event of this accelerator passes before what is submitted now. For others the host waits.
static int wait(void* context, void* queue, void* event) {
  const struct event_table* table = (const struct event_table*)event;
  bool is_own = table->query == event_query && table->context == context;
  return is_own ? reach((struct accelerator*)queue, 0, 0) : EXDEV;
}

// The table of an event has the answers, whoever made the event.
static int is_complete(void* context, void* event, int32_t* out) {
  int code = ((struct event_table*)event)->query((struct event_table*)event);
  *out = code == 0;
  return (void)context, code == EAGAIN ? 0 : code;
}

static int wait_on_host(void* context, void* event, int64_t nanoseconds) {
  return (void)context, ((struct event_table*)event)->wait((struct event_table*)event, nanoseconds);
}

static int read_event(void* context, void* sync_event, void** out) {
  const struct event_table* table = (const struct event_table*)sync_event;
  *out = sync_event;
  if (table->magic != magic_number || table->version < 1 || table->size < sizeof(*table)) return EINVAL;
  return (void)context, table->query == NULL || table->wait == NULL ? EINVAL : 0;
}

static int copy(void* context, void* queue, int32_t route, const struct ardev_region* regions, size_t n_regions) {
  struct accelerator* device = (struct accelerator*)context;
  struct command* command = (struct command*)malloc(sizeof(*command) + n_regions * sizeof(*regions));
  if (command == NULL) return ENOMEM;
  command->next = NULL, command->route = route, command->n_regions = n_regions;
  memcpy(command + 1, regions, n_regions * sizeof(*regions));
  pthread_mutex_lock(&device->lock);
  *device->last = command, device->last = &command->next;
  device->submitted++;
  pthread_cond_broadcast(&device->changed);
  pthread_mutex_unlock(&device->lock);
  return reach((struct accelerator*)queue, 0, 0);  // what a lost accelerator was given is dropped
}

// Nothing of the device is left, and all work is done.
static void release(void* context) {
  struct accelerator* device = (struct accelerator*)context;
  become(device, CLOSES), pthread_join(device->worker, NULL);
  pthread_cond_destroy(&device->changed), pthread_mutex_destroy(&device->lock);
  free(device);
}

// Breaks the accelerator, for tests.
void custom_device_lose(void* context) { become((struct accelerator*)context, IS_LOST); }

// Writes the table of a new accelerator, for `ardev_device_register`.
int custom_device(struct ardev_driver* out) {
  static int instances = 0;
  struct accelerator* device = (struct accelerator*)calloc(1, sizeof(*device));
  if (device == NULL) return ENOMEM;
  device->last = &device->first;
  pthread_cond_init(&device->changed, NULL), pthread_mutex_init(&device->lock, NULL);
  int code = pthread_create(&device->worker, NULL, work, device);
  if (code != 0) return free(device), code;
  memset(out, 0, sizeof(*out));
  out->struct_size = sizeof(*out), out->name = "a simulated accelerator";
  out->device_type = ARROW_DEVICE_EXT_DEV, out->flags = ARDEV_DEVICE_EVENT_OBJECTS;
  out->device_id = INT64_C(0x4c414221) << 32 | instances++;  // the letters LAB!, and which one
  out->context = device, out->release = release;
  out->allocate = allocate, out->free = free_memory, out->copy = copy;
  out->open_queue = open_queue, out->close_queue = close_queue;
  out->synchronize = synchronize, out->is_idle = is_idle;
  out->record = record, out->destroy_event = destroy_event, out->read_event = read_event;
  out->wait = wait, out->is_complete = is_complete, out->wait_on_host = wait_on_host;
  return 0;
}
