// A bridge between Arrow and DLPack: a column becomes a tensor for numpy, torch or jax, and a
// tensor of theirs a column.
#include <arrow_device/arrow_device.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

static void must(int code, const ardev_error& error) {
  if (code != 0) {
    std::fprintf(stderr, "%s\n", error.message);
    std::exit(1);
  }
}

// ---- the other library: a tensor of its own, two rows of three numbers

struct Matrix {
  float values[6] = {1, 2, 3, 4, 5, 6};
  int64_t shape[2] = {2, 3};
  int64_t strides[2] = {3, 1};
  DLManagedTensorVersioned managed = {};
};

static DLManagedTensorVersioned* matrix() {
  auto* matrix = new Matrix;
  DLManagedTensorVersioned& managed = matrix->managed;
  managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  managed.manager_ctx = matrix;
  managed.deleter = [](DLManagedTensorVersioned* self) { delete static_cast<Matrix*>(self->manager_ctx); };
  managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  managed.dl_tensor.data = matrix->values;
  managed.dl_tensor.device = {kDLCPU, 0};
  managed.dl_tensor.ndim = 2;
  managed.dl_tensor.dtype = {kDLFloat, 32, 1};
  managed.dl_tensor.shape = matrix->shape;
  managed.dl_tensor.strides = matrix->strides;
  return &managed;
}

// ---- the bridge

// A tensor as an array of lists. The memory is shared.
static ardev_array* arrow_of(DLManagedTensorVersioned* c_tensor) {
  ardev_error error;
  ardev_tensor* tensor;
  must(ardev_tensor_import(c_tensor, nullptr, 0, &tensor, &error), error);
  ardev_conversion conversion = {};
  conversion.struct_size = sizeof(conversion);
  conversion.flags = ARDEV_CONVERT_AS_LISTS;
  ardev_array* array;
  must(ardev_array_from_tensor(tensor, &conversion, &array, &error), error);
  ardev_tensor_free(tensor);
  return array;
}

// An array of numbers as a tensor. The memory is shared, and so it is read-only.
static DLManagedTensorVersioned* dlpack_of(const ardev_array* array) {
  ardev_error error;
  ardev_tensor* tensor;
  must(ardev_tensor_from_array(array, nullptr, &tensor, &error), error);
  DLManagedTensorVersioned* c_tensor;
  must(ardev_tensor_export(tensor, nullptr, ARDEV_COPYING_NEVER, &c_tensor, &error), error);
  ardev_tensor_free(tensor);
  return c_tensor;
}

int main() {
  ardev_error error;
  DLManagedTensorVersioned* theirs = matrix();
  const void* memory = theirs->dl_tensor.data;
  ardev_array* rows = arrow_of(theirs);
  size_t size;
  must(ardev_array_describe(rows, nullptr, 0, &size, &error), error);
  std::vector<char> text(size);
  must(ardev_array_describe(rows, text.data(), text.size(), &size, &error), error);
  std::printf("%s", text.data());

  ardev_array* numbers;
  must(ardev_array_child(rows, 0, &numbers, &error), error);
  DLManagedTensorVersioned* again = dlpack_of(numbers);
  ardev_array_free(rows);
  ardev_array_free(numbers);
  const DLTensor& tensor = again->dl_tensor;
  const bool is_shared = static_cast<const char*>(tensor.data) + tensor.byte_offset == memory;
  const bool is_right = tensor.ndim == 1 && tensor.shape[0] == 6 && (again->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
  std::printf("there and back: %d numbers, %s\n", static_cast<int>(tensor.shape[0]), is_shared ? "shared" : "copied");
  again->deleter(again);
  return is_shared && is_right ? 0 : 1;
}
