#include <memory>

#include <arrow/api.h>
#include <arrow/c/bridge.h>
#include <arrow/device.h>

#include "copies.h"

namespace {

using BatchPtr = std::shared_ptr<arrow::RecordBatch>;

// With the pool that Arrow C++ takes by itself, which keeps what was freed.
arrow::Result<BatchPtr> Copy(const void* held) {
  return (*static_cast<const BatchPtr*>(held))->CopyTo(arrow::default_cpu_memory_manager());
}

}  // namespace

extern "C" {

void* copies_hold(ArrowSchema* schema, ArrowDeviceArray* array) {
  auto batch = arrow::ImportDeviceRecordBatch(array, schema);
  if (!batch.ok()) {
    batch.status().Warn();
    return nullptr;
  }
  return new BatchPtr(*batch);
}

int copies_copy(void* held) { return Copy(held).ok() ? 0 : 1; }

int copies_sum(void* held, int64_t* sum) {
  auto copied = Copy(held);
  if (!copied.ok()) return 1;
  *sum = 0;
  for (const auto& column : (*copied)->columns()) {
    const auto& numbers = static_cast<const arrow::Int64Array&>(*column);
    for (int64_t row = 0; row < numbers.length(); row++) *sum += numbers.Value(row);
  }
  return 0;
}

}  // extern "C"
