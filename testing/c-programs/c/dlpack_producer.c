// A producer of tensors: good ones come back as they were, spoiled ones are refused, and each is
// deleted once.

#include "dlpack_peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// Six int32, 0 to 5, and all that a tensor of them needs, in one block.
struct Made {
  DLManagedTensorVersioned versioned;
  DLManagedTensor legacy;
  int64_t shape[2];
  int64_t strides[2];
  int32_t values[6];
};

static int deleted = 0;

static void delete_versioned(DLManagedTensorVersioned* tensor) {
  ++deleted;
  free(tensor->manager_ctx);
}

static void delete_legacy(DLManagedTensor* tensor) {
  ++deleted;
  free(tensor->manager_ctx);
}

static struct Made* make(void) {
  struct Made* made = (struct Made*)calloc(1, sizeof(struct Made));
  if (made == NULL) {
    abort();
  }
  made->shape[0] = 2;
  made->shape[1] = 3;
  made->strides[0] = 3;
  made->strides[1] = 1;
  for (int i = 0; i < 6; ++i) {
    made->values[i] = i;
  }
  DLTensor* tensor = &made->versioned.dl_tensor;
  tensor->data = made->values;
  tensor->device.device_type = kDLCPU;
  tensor->ndim = 2;
  tensor->dtype.code = kDLInt;
  tensor->dtype.bits = 32;
  tensor->dtype.lanes = 1;
  tensor->shape = made->shape;
  tensor->strides = made->strides;
  made->legacy.dl_tensor = *tensor;
  made->versioned.version.major = DLPACK_MAJOR_VERSION;
  made->versioned.version.minor = DLPACK_MINOR_VERSION;
  made->versioned.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  made->versioned.manager_ctx = made;
  made->versioned.deleter = delete_versioned;
  made->legacy.manager_ctx = made;
  made->legacy.deleter = delete_legacy;
  return made;
}

static void check_same(const DLTensor* tensor) {
  CHECK(tensor->ndim == 2);
  CHECK(tensor->shape[0] == 2 && tensor->shape[1] == 3);
  const int32_t* first = (const int32_t*)((const char*)tensor->data + tensor->byte_offset);
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t column = 0; column < 3; ++column) {
      CHECK(first[row * tensor->strides[0] + column * tensor->strides[1]] == row * 3 + column);
    }
  }
}

static void good_ones(void) {
  char message[256] = "";
  section("a tensor comes back and shares its memory");
  deleted = 0;
  struct Made* made = make();
  const void* data = made->values;
  DLManagedTensorVersioned* back = NULL;
  CHECK(adp_dlpack_exchange(&made->versioned, &back, message, sizeof(message)) == 0);
  check_same(&back->dl_tensor);
  CHECK(back->dl_tensor.data == data);
  CHECK(back->flags == DLPACK_FLAG_BITMASK_READ_ONLY);
  CHECK(deleted == 0);
  back->deleter(back);
  CHECK(deleted == 1);
#ifdef PLANT_DOUBLE_RELEASE
  delete_versioned(&made->versioned);
#endif

  section("one of the older form comes back as a copy");
  deleted = 0;
  DLManagedTensor* copy = NULL;
  made = make();
  CHECK(adp_dlpack_exchange_legacy(&made->legacy, &copy, message, sizeof(message)) == 0);
  CHECK(deleted == 1);
  check_same(&copy->dl_tensor);
  copy->deleter(copy);

  section("no strides are compact ones");
  made = make();
  made->versioned.dl_tensor.strides = NULL;
  CHECK(adp_dlpack_exchange(&made->versioned, &back, message, sizeof(message)) == 0);
  check_same(&back->dl_tensor);
  back->deleter(back);

  section("a number, far into its memory");
  made = make();
  made->versioned.dl_tensor.ndim = 0;
  made->versioned.dl_tensor.shape = NULL;
  made->versioned.dl_tensor.strides = NULL;
  made->versioned.dl_tensor.byte_offset = 20;
  CHECK(adp_dlpack_exchange(&made->versioned, &back, message, sizeof(message)) == 0);
  CHECK(back->dl_tensor.ndim == 0);
  CHECK(*(const int32_t*)((const char*)back->dl_tensor.data + back->dl_tensor.byte_offset) == 5);
  back->deleter(back);
}

typedef void (*Spoiler)(struct Made*);

#define SPOIL(name, target)               \
  static void name(struct Made* made) {   \
    DLTensor* it = &made->versioned.dl_tensor; \
    (void)it;                             \
    target;                               \
  }

SPOIL(negative_ndim, it->ndim = -1)
SPOIL(huge_ndim, it->ndim = INT32_MAX)
SPOIL(no_shape, it->shape = NULL)
SPOIL(negative_length, made->shape[1] = -3)
SPOIL(lengths_overflow, made->shape[0] = made->shape[1] = INT64_C(1) << 40)
SPOIL(stride_overflows, made->strides[0] = INT64_MAX)
SPOIL(no_data, it->data = NULL)
SPOIL(offset_overflows, it->byte_offset = UINT64_MAX)
SPOIL(no_bits, it->dtype.bits = 0)
SPOIL(no_lanes, it->dtype.lanes = 0)
SPOIL(unknown_type, it->dtype.code = 99)
SPOIL(unknown_version, made->versioned.version.major = 2)
SPOIL(negative_gpu, it->device.device_type = kDLCUDA; it->device.device_id = -1)

static void spoiled_ones(void) {
  static const struct {
    const char* what;
    Spoiler spoil;
    int expected;
  } cases[] = {
      {"a negative number of dimensions", negative_ndim, EINVAL},
      {"far too many dimensions", huge_ndim, E2BIG},
      {"no shape", no_shape, EINVAL},
      {"a negative length", negative_length, EINVAL},
      {"lengths that overflow", lengths_overflow, E2BIG},
      {"a stride that overflows", stride_overflows, E2BIG},
      {"no data", no_data, EINVAL},
      {"an offset that overflows", offset_overflows, E2BIG},
      {"elements of no bits", no_bits, EINVAL},
      {"no lanes", no_lanes, EINVAL},
      {"an unknown type", unknown_type, ENOSYS},
      {"an unknown version", unknown_version, ENOSYS},
      {"a negative number of a GPU", negative_gpu, EINVAL},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    section(cases[i].what);
    deleted = 0;
    struct Made* made = make();
    cases[i].spoil(made);
    DLManagedTensorVersioned* back = NULL;
    char message[256] = "";
    int error = adp_dlpack_exchange(&made->versioned, &back, message, sizeof(message));
    CHECK(error == cases[i].expected);
    CHECK(back == NULL);
    CHECK(strlen(message) > 0);
    CHECK(deleted == 1);
  }
}

int main(void) {
  good_ones();
  spoiled_ones();
  return result();
}
