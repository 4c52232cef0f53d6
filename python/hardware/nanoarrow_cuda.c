/* What `compiled.py` calls: nanoarrow, with its part for CUDA, copies an array from one device to
 * another on a stream of its own. */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "nanoarrow/nanoarrow_device.h"

static int copy_on(CUstream stream, struct ArrowSchema* schema, struct ArrowDeviceArray* from, struct ArrowDevice* to,
                   struct ArrowDeviceArray* out, struct ArrowError* error) {
  struct ArrowDeviceArrayView view;
  ArrowDeviceArrayViewInit(&view);
  int code = ArrowArrayViewInitFromSchema(&view.array_view, schema, error);
  /* Whoever takes an array has its stream wait for the array's event. */
  if (code == 0 && from->sync_event != NULL && cuStreamWaitEvent(stream, *(CUevent*)from->sync_event, 0) != CUDA_SUCCESS) code = 1;
  /* What is on the host is looked at without a stream. */
  void* looks_on = from->device_type == ARROW_DEVICE_CPU ? NULL : (void*)&stream;
  if (code == 0) code = ArrowDeviceArrayViewSetArrayAsync(&view, from, looks_on, error);
  if (code == 0) code = ArrowDeviceArrayViewCopyAsync(&view, to, out, &stream);
  ArrowDeviceArrayViewReset(&view);
  return code;
}

/* Copies an array. All that was given stays the caller's, and `out` is too where the result is 0;
 * otherwise `words` has a text. The copy may still run where it is on a device: an event says when
 * it is done. */
int arrow_device_nanoarrow_copy(struct ArrowSchema* schema, struct ArrowDeviceArray* from, int32_t type, int64_t id,
                                struct ArrowDeviceArray* out, char* words, size_t len) {
  struct ArrowError error = {.message = "no words"};
  CUcontext context, popped;
  CUstream stream;
  struct ArrowDevice* to = ArrowDeviceResolve(type, id);
  memset(out, 0, sizeof(*out));
  if (to == NULL) {
    snprintf(words, len, "nanoarrow has no device of type %d and number %lld", (int)type, (long long)id);
    return 1;
  }
  if (cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS || cuCtxPushCurrent(context) != CUDA_SUCCESS) {
    snprintf(words, len, "the device has no context");
    return 1;
  }
  int code = 1;
  if (cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS) {
    code = copy_on(stream, schema, from, to, out, &error);
    /* What is on the host has no event that could say when it is there. */
    if (code == 0 && type == ARROW_DEVICE_CPU && cuStreamSynchronize(stream) != CUDA_SUCCESS) code = 1;
    cuStreamDestroy(stream);
  }
  if (code != 0) snprintf(words, len, "%d: %.900s", code, error.message);
  cuCtxPopCurrent(&popped);
  cuDevicePrimaryCtxRelease(0);
  return code;
}
