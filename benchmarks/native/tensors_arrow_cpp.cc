// Tensors of Arrow C++ through DLPack, for the benchmarks. `arrow_cpp.rs` of the family `tensors`
// calls these.
//
// Nothing throws: what fails returns null or a number that is not 0.

#include <cstdint>
#include <memory>
#include <vector>

#include <arrow/api.h>
#include <arrow/c/dlpack.h>
#include <arrow/tensor.h>

namespace {

/// A tensor over somebody's numbers, and the same as an array.
struct Source {
  std::shared_ptr<arrow::Tensor> tensor;
  std::shared_ptr<arrow::Array> array;
};

template <typename T>
struct Held {
  std::shared_ptr<T> value;
};

}  // namespace

extern "C" {

Source* tensors_source(const int64_t* numbers, int64_t count, const int64_t* shape, int64_t ndim) {
  auto buffer = std::make_shared<arrow::Buffer>(reinterpret_cast<const uint8_t*>(numbers), count * 8);
  auto tensor = arrow::Tensor::Make(arrow::int64(), buffer, std::vector<int64_t>(shape, shape + ndim));
  if (!tensor.ok()) return nullptr;
  auto array = std::make_shared<arrow::Int64Array>(count, buffer);
  return new Source{*tensor, array};
}

void tensors_source_free(Source* source) { delete source; }

DLManagedTensorVersioned* tensors_export(Source* source) {
  auto made = arrow::dlpack::ExportTensorVersioned(source->tensor, false);
  return made.ok() ? *made : nullptr;
}


/// Where the result is put is made before, so that no allocation is counted but the library's own.
void* tensors_slot() { return new Held<arrow::Tensor>(); }

int tensors_import(DLManagedTensorVersioned* tensor, void* slot) {
  auto taken = arrow::dlpack::ImportTensorVersioned(tensor);
  if (!taken.ok()) return 1;
  static_cast<Held<arrow::Tensor>*>(slot)->value = *std::move(taken);
  return 0;
}

void tensors_clear(void* slot) { static_cast<Held<arrow::Tensor>*>(slot)->value.reset(); }

int64_t tensors_count(void* slot) {
  auto& held = static_cast<Held<arrow::Tensor>*>(slot)->value;
  return held ? held->size() : -1;
}

void tensors_slot_free(void* slot) { delete static_cast<Held<arrow::Tensor>*>(slot); }

/// From an array to C and from C to an array; how many elements came out, or -1.
int64_t tensors_array_round_trip(Source* source) {
  auto made = arrow::dlpack::ExportArrayVersioned(source->array, false);
  if (!made.ok()) return -1;
  auto taken = arrow::dlpack::ImportArrayVersioned(*made);
  return taken.ok() ? (*taken)->length() : -1;
}

/// The same of a tensor.
int64_t tensors_round_trip(Source* source) {
  auto made = arrow::dlpack::ExportTensorVersioned(source->tensor, false);
  if (!made.ok()) return -1;
  auto taken = arrow::dlpack::ImportTensorVersioned(*made);
  return taken.ok() ? (*taken)->size() : -1;
}
}
