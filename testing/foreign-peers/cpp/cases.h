// The cases of Arrow C++: every type, every holder of every type, each whole, sliced and empty,
// with nulls and without.
#pragma once

#include <arrow/array/data.h>
#include <arrow/record_batch.h>

#include <string>
#include <vector>

namespace cases {

struct Case {
  std::string name;
  std::shared_ptr<arrow::DataType> type;
  int64_t length;
  bool nulls;
  // The slice that the case is.
  int64_t from;
  int64_t count;
};

const std::vector<Case>& Arrays();
arrow::Result<std::shared_ptr<arrow::Array>> MakeArray(const Case& which);

// All leaves as columns, and all holders of numbers.
const std::vector<Case>& Batches();
arrow::Result<std::shared_ptr<arrow::RecordBatch>> MakeBatch(const Case& which);

// Something for the import to know extension types by.
arrow::Status RegisterExtension();

}  // namespace cases
