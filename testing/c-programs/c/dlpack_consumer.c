// A consumer of tensors that were made in Rust: it reads each in both forms, and deletes it, once
// on another thread.

#include "dlpack_peer.h"

#include <pthread.h>
#include <stdlib.h>

static DLManagedTensorVersioned* newer(int kind) {
  void* out = NULL;
  CHECK(adp_dlpack_produce(kind, 1, &out) == 0);
  if (out == NULL) {
    abort();
  }
  return (DLManagedTensorVersioned*)out;
}

static DLManagedTensor* older(int kind) {
  void* out = NULL;
  CHECK(adp_dlpack_produce(kind, 0, &out) == 0);
  if (out == NULL) {
    abort();
  }
  return (DLManagedTensor*)out;
}

static const char* first(const DLTensor* tensor) { return (const char*)tensor->data + tensor->byte_offset; }

static void check_matrix(const DLTensor* tensor, int turned) {
  CHECK(tensor->device.device_type == kDLCPU && tensor->device.device_id == 0);
  CHECK(tensor->dtype.code == kDLFloat && tensor->dtype.bits == 32 && tensor->dtype.lanes == 1);
  CHECK(tensor->ndim == 2 && tensor->strides != NULL);
  CHECK(tensor->shape[turned] == 2 && tensor->shape[1 - turned] == 3);
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      int64_t place = i * tensor->strides[turned] + j * tensor->strides[1 - turned];
      CHECK(((const float*)first(tensor))[place] == (float)(i * 3 + j));
    }
  }
}

static void* delete_elsewhere(void* tensor) {
  DLManagedTensorVersioned* managed = (DLManagedTensorVersioned*)tensor;
  managed->deleter(managed);
  return NULL;
}

int main(void) {
  section("a matrix in both forms, and turned");
  for (int turned = 0; turned < 2; ++turned) {
    DLManagedTensorVersioned* matrix = newer(turned ? ADP_TURNED : ADP_MATRIX);
    CHECK(matrix->version.major == DLPACK_MAJOR_VERSION && matrix->version.minor == DLPACK_MINOR_VERSION);
    CHECK(matrix->flags == DLPACK_FLAG_BITMASK_READ_ONLY);
    check_matrix(&matrix->dl_tensor, turned);
    CHECK(adp_alive() == 1);
#ifndef PLANT_LEAK
    matrix->deleter(matrix);
    CHECK(adp_alive() == 0);
#else
    matrix = NULL;
#endif
    DLManagedTensor* copy = older(turned ? ADP_TURNED : ADP_MATRIX);
    check_matrix(&copy->dl_tensor, turned);
    // It is a copy, and the consumer's own.
    *(float*)copy->dl_tensor.data = 9;
    copy->deleter(copy);
  }

  section("a number");
  DLManagedTensorVersioned* number = newer(ADP_NUMBER);
  CHECK(number->dl_tensor.ndim == 0);
  CHECK(*(const int64_t*)first(&number->dl_tensor) == 42);
  number->deleter(number);

  section("nothing");
  DLManagedTensorVersioned* nothing = newer(ADP_NOTHING);
  CHECK(nothing->dl_tensor.ndim == 2 && nothing->dl_tensor.shape[0] == 4 && nothing->dl_tensor.shape[1] == 0);
  CHECK(nothing->dl_tensor.data == NULL);
  nothing->deleter(nothing);

  section("a slice of a column, deleted on another thread");
  DLManagedTensorVersioned* column = newer(ADP_COLUMN);
  CHECK(column->dl_tensor.ndim == 1 && column->dl_tensor.shape[0] == 2 && column->dl_tensor.strides[0] == 1);
  CHECK(((const int32_t*)first(&column->dl_tensor))[0] == 20);
  CHECK(((const int32_t*)first(&column->dl_tensor))[1] == 30);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, delete_elsewhere, column) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(adp_alive() == 0);
  return result();
}
