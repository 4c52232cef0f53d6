// An application with a SYCL queue of its own, which is dpctl's interface here: the first argument
// says whether the library loads the runtime or is given its functions, the second one names the
// runtime.

#include <arrow_device/arrow_device.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What `arrow_device/sycl.hpp` declares for C++: functions of these names, in this order.
static const char* const NAMES[] = {
    "DPCTLDeviceMgr_GetDevices",       "DPCTLDeviceVector_Size",
    "DPCTLDeviceVector_GetAt",         "DPCTLDeviceVector_Delete",
    "DPCTLDeviceMgr_GetPositionInDevices", "DPCTLDeviceMgr_GetCachedContext",
    "DPCTLDevice_GetName",             "DPCTLDevice_GetDriverVersion",
    "DPCTLCString_Delete",             "DPCTLDevice_GetGlobalMemSize",
    "DPCTLDevice_HasAspect",           "DPCTLDevice_GetBackend",
    "DPCTLDevice_Delete",              "DPCTLContext_AreEq",
    "DPCTLContext_Delete",             "DPCTLQueue_Create",
    "DPCTLQueue_GetContext",           "DPCTLQueue_GetDevice",
    "DPCTLQueue_IsInOrder",            "DPCTLQueue_Copy",
    "DPCTLQueue_Hash",                 "DPCTLQueue_Delete",
    "DPCTLQueue_MemcpyWithEvents",     "DPCTLQueue_SubmitBarrier",
    "DPCTLQueue_SubmitBarrierForEvents", "DPCTLEvent_GetCommandExecutionStatus",
    "DPCTLEvent_Copy",                 "DPCTLEvent_Delete",
    "DPCTLaligned_alloc_device",       "DPCTLaligned_alloc_host",
    "DPCTLaligned_alloc_shared",       "DPCTLfree_with_context",
    "DPCTLUSM_GetPointerType",
};
#define COUNT (sizeof(NAMES) / sizeof(NAMES[0]))

struct table {
  size_t size;
  void* functions[COUNT];
};

static struct ardev_error error;

static void need(bool holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "not so: %s: %s\n", what, error.message);
  exit(1);
}

static void* library;

// A function of the runtime that gets and returns pointers.
static void* call(const char* name, void* a, void* b, void* c, int d) {
  void* (*function)(void*, void*, void*, int);
  void* found = dlsym(library, name);
  need(found != NULL, name);
  memcpy(&function, &found, sizeof(function));
  return function(a, b, c, d);
}

static int end_count;

static void end(void* context) {
  (void)context;
  end_count += 1;
}

int main(int argc, char** argv) {
  memset(&error, 0, sizeof(error));
  need(argc == 3, "two arguments");
  library = dlopen(argv[2], RTLD_NOW);
  need(library != NULL, argv[2]);
  if (strcmp(argv[1], "table") == 0) {
    struct table table;
    table.size = sizeof(table);
    for (size_t index = 0; index < COUNT; index++) {
      table.functions[index] = dlsym(library, NAMES[index]);
      need(table.functions[index] != NULL, NAMES[index]);
    }
    need(ardev_oneapi_use_functions(&table, sizeof(table) - 8, &error) != 0, "another size is refused");
    for (int round = 0; round < 2; round++)
      need(ardev_oneapi_use_functions(&table, sizeof(table), &error) == 0, "the table is taken");
  }

  // A context and a queue of the application's.
  void* list = call("DPCTLDeviceMgr_GetDevices", NULL, NULL, NULL, 0);
  void* sycl_device = call("DPCTLDeviceVector_GetAt", list, NULL, NULL, 0);
  call("DPCTLDeviceVector_Delete", list, NULL, NULL, 0);
  void* context = call("DPCTLContext_Create", sycl_device, NULL, NULL, 0);
  void* lane = call("DPCTLQueue_Create", context, sycl_device, NULL, 2);

  struct ardev_device* device = NULL;
  need(ardev_device_open_oneapi(NULL, 0, &device, &error) != 0, "no queue is refused");
  need(ardev_device_open_oneapi(lane, ARDEV_MEMORY_SVM, &device, &error) != 0, "no such memory");
  need(ardev_device_open_oneapi(lane, ARDEV_MEMORY_AUTOMATIC, &device, &error) == 0, "the device is opened");
  struct ardev_queue* queue = NULL;
  need(ardev_queue_adopt(device, lane, NULL, end, &queue, &error) == 0, "the queue is adopted");

  // Bytes go there and back in the order of the application's queue.
  int64_t numbers[4] = {1, -2, 3, -4};
  struct ardev_schema* schema = NULL;
  need(ardev_schema_new("l", NULL, 0, NULL, 0, NULL, &schema, &error) == 0, "a type is made");
  struct ardev_array* array = NULL;
  need(ardev_array_from_values(schema, numbers, NULL, 4, queue, &array, &error) == 0, "an array is made");

  // An event of the application's, behind which the queue waits.
  void* raw = call("DPCTLQueue_SubmitBarrier", lane, NULL, NULL, 0);
  struct ardev_event* event = NULL;
  need(ardev_event_adopt(device, raw, NULL, end, &event, &error) == 0, "an event is adopted");
  struct ardev_queue* own = NULL;
  need(ardev_queue_open(device, &own, &error) == 0, "a queue is opened");
  need(ardev_queue_wait(own, event, &error) == 0, "a queue waits for the application's");

  struct ardev_array* back = NULL;
  need(ardev_array_copy(array, NULL, NULL, &back, &error) == 0, "the array is copied to the host");
  struct ardev_view* view = NULL;
  need(ardev_view_open(back, NULL, &view, &error) == 0, "the copy is looked at");
  struct ardev_place place;
  need(ardev_view_buffer(view, 1, &place, &error) == 0, "the copy has a buffer");
  need(memcmp((const char*)place.base + place.offset, numbers, sizeof(numbers)) == 0, "the bytes are the same");

  ardev_view_free(view);
  ardev_array_free(back);
  ardev_array_free(array);
  ardev_event_free(event);
  ardev_schema_free(schema);
  need(ardev_queue_synchronize(queue, &error) == 0, "the queue is finished");
  need(ardev_queue_synchronize(own, &error) == 0, "the other queue is finished");
  ardev_queue_free(own);
  ardev_queue_free(queue);
  ardev_device_free(device);
  need(ardev_wait_until_released(INT64_C(20000000000), &error) == 0, "all is released");
  need(end_count == 2, "the application has its queue and its event back");
  call("DPCTLEvent_Delete", raw, NULL, NULL, 0);
  call("DPCTLQueue_Delete", lane, NULL, NULL, 0);
  call("DPCTLContext_Delete", context, NULL, NULL, 0);
  call("DPCTLDevice_Delete", sycl_device, NULL, NULL, 0);
  printf("all is well\n");
  return 0;
}
