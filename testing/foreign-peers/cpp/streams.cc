#include "streams.h"

#include "common.h"

namespace {

using arrow::ArrayVector;
using arrow::ChunkedArray;
using arrow::DeviceAllocationType;
using arrow::RecordBatch;
using arrow::RecordBatchReader;
using arrow::RecordBatchVector;
using arrow::Result;
using arrow::Status;

// How many cases a type has.
constexpr size_t kShapes = 8;

DeviceAllocationType TypeOf(int place) {
  return place == ADF_HOST ? DeviceAllocationType::kCPU : DeviceAllocationType::kEXT_DEV;
}

// Whole, sliced and empty; an empty slice of views is not taken back from itself. On the device
// nothing that is empty: its offsets are null there, which it does not take back either.
std::vector<size_t> Shapes(int place) {
  if (place == ADF_HOST) return {0, 1, 2, 4, 5, 6, 0};
  return {0, 1, 4, 5, 0};
}

bool IsBatches(size_t number) { return number * kShapes >= cases::Arrays().size(); }

Result<ArrayVector> Arrays(size_t number, int place) {
  ARROW_RETURN_NOT_OK(cases::RegisterExtension());
  ArrayVector chunks;
  for (const size_t shape : Shapes(place)) {
    ARROW_ASSIGN_OR_RAISE(auto array, cases::MakeArray(cases::Arrays()[number * kShapes + shape]));
    ARROW_ASSIGN_OR_RAISE(auto placed, Place(array, place));
    chunks.push_back(placed.first);
  }
  return chunks;
}

}  // namespace

Result<RecordBatchVector> Batches(size_t number, int place) {
  if (!IsBatches(number)) return Status::Invalid("stream ", number, " is one of arrays");
  const size_t first = number * kShapes - cases::Arrays().size();
  if (first + kShapes > cases::Batches().size()) return Status::Invalid("there is no stream ", number);
  RecordBatchVector batches;
  for (const size_t shape : Shapes(place)) {
    ARROW_ASSIGN_OR_RAISE(auto batch, cases::MakeBatch(cases::Batches()[first + shape]));
    ARROW_ASSIGN_OR_RAISE(auto placed, Place(batch, place));
    auto there = placed.first;
    if (placed.second != nullptr) {
      there = RecordBatch::Make(there->schema(), there->num_rows(), there->column_data(), TypeOf(place), placed.second);
    }
    batches.push_back(there);
  }
  return batches;
}

Status CompareBatches(const arrow::Schema& found, const NextBatch& next, size_t number, int place) {
  ARROW_ASSIGN_OR_RAISE(auto some, Batches(number, ADF_HOST));
  const auto schema = some[0]->schema();
  ARROW_RETURN_NOT_OK(Require(found.Equals(*schema, /*check_metadata=*/true), "the schema is another one"));
  const size_t first = number * kShapes - cases::Arrays().size();
  for (const size_t shape : Shapes(place)) {
    ARROW_ASSIGN_OR_RAISE(auto expected, cases::MakeBatch(cases::Batches()[first + shape]));
    ARROW_ASSIGN_OR_RAISE(auto batch, next());
    ARROW_RETURN_NOT_OK(Require(batch != nullptr, "the stream ends too early"));
    ARROW_ASSIGN_OR_RAISE(auto here, ToHost(batch, place == ADF_HOST));
    ARROW_RETURN_NOT_OK(here->ValidateFull());
    ARROW_RETURN_NOT_OK(Require(here->Equals(*expected, /*check_metadata=*/true, Strictly()), "the batches differ"));
  }
  ARROW_ASSIGN_OR_RAISE(auto end, next());
  return Require(end == nullptr, "the stream goes on too long");
}

namespace {

Result<std::shared_ptr<RecordBatchReader>> Reader(size_t number, int place) {
  ARROW_ASSIGN_OR_RAISE(auto batches, Batches(number, place));
  auto schema = batches[0]->schema();
  return RecordBatchReader::Make(std::move(batches), schema, TypeOf(place));
}

Status CompareChunks(const ChunkedArray& found, const ArrayVector& expected, bool is_on_host) {
  const auto count = static_cast<size_t>(found.num_chunks());
  if (count != expected.size()) return Status::Invalid(count, " chunks instead of ", expected.size());
  for (size_t index = 0; index < count; ++index) {
    ARROW_ASSIGN_OR_RAISE(auto here, ToHost(found.chunk(static_cast<int>(index)), is_on_host));
    ARROW_RETURN_NOT_OK(here->ValidateFull());
    ARROW_RETURN_NOT_OK(RequireEqual(*expected[index], *here));
  }
  return Status::OK();
}

Status CompareReader(RecordBatchReader& found, size_t number, int place) {
  return CompareBatches(*found.schema(), [&] { return found.Next(); }, number, place);
}

Result<std::shared_ptr<ChunkedArray>> Chunks(size_t number, int place) {
  ARROW_ASSIGN_OR_RAISE(auto chunks, Arrays(number, place));
  return ChunkedArray::Make(std::move(chunks));
}

Status CompareArrays(const ChunkedArray& found, size_t number, int place) {
  ArrayVector expected;
  for (const size_t shape : Shapes(place)) {
    ARROW_ASSIGN_OR_RAISE(auto array, cases::MakeArray(cases::Arrays()[number * kShapes + shape]));
    expected.push_back(array);
  }
  return CompareChunks(found, expected, place == ADF_HOST);
}

class FailingReader : public RecordBatchReader {
 public:
  FailingReader(std::shared_ptr<RecordBatch> batch, size_t good, Status failure)
      : batch_(std::move(batch)), good_(good), failure_(std::move(failure)) {}
  std::shared_ptr<arrow::Schema> schema() const override { return batch_->schema(); }
  Status ReadNext(std::shared_ptr<RecordBatch>* out) override {
    if (good_ == 0) return failure_;
    --good_;
    *out = batch_;
    return Status::OK();
  }

 private:
  const std::shared_ptr<RecordBatch> batch_;
  size_t good_;
  const Status failure_;
};

}  // namespace

extern "C" {

int adf_cpp_export_stream(size_t number, int place, ArrowDeviceArrayStream* out) {
  return guarded([&]() -> Status {
    if (IsBatches(number)) {
      ARROW_ASSIGN_OR_RAISE(auto reader, Reader(number, place));
      return arrow::ExportDeviceRecordBatchReader(reader, out);
    }
    ARROW_ASSIGN_OR_RAISE(auto chunks, Chunks(number, place));
    return arrow::ExportDeviceChunkedArray(chunks, TypeOf(place), out);
  });
}

int adf_cpp_export_plain_stream(size_t number, ArrowArrayStream* out) {
  return guarded([&]() -> Status {
    if (IsBatches(number)) {
      ARROW_ASSIGN_OR_RAISE(auto reader, Reader(number, ADF_HOST));
      return arrow::ExportRecordBatchReader(reader, out);
    }
    ARROW_ASSIGN_OR_RAISE(auto chunks, Chunks(number, ADF_HOST));
    return arrow::ExportChunkedArray(chunks, out);
  });
}

int adf_cpp_compare_stream(size_t number, int place, ArrowDeviceArrayStream* stream) {
  return guarded([&]() -> Status {
    if (IsBatches(number)) {
      ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ImportDeviceRecordBatchReader(stream, Mapper));
      return CompareReader(*reader, number, place);
    }
    ARROW_ASSIGN_OR_RAISE(auto chunks, arrow::ImportDeviceChunkedArray(stream, Mapper));
    return CompareArrays(*chunks, number, place);
  });
}

int adf_cpp_compare_plain_stream(size_t number, ArrowArrayStream* stream) {
  return guarded([&]() -> Status {
    if (IsBatches(number)) {
      ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ImportRecordBatchReader(stream));
      return CompareReader(*reader, number, ADF_HOST);
    }
    ARROW_ASSIGN_OR_RAISE(auto chunks, arrow::ImportChunkedArray(stream));
    return CompareArrays(*chunks, number, ADF_HOST);
  });
}

int adf_cpp_relay_chunks(ArrowDeviceArrayStream* stream, ArrowDeviceArrayStream* out) {
  return guarded([&]() -> Status {
    const auto type = static_cast<DeviceAllocationType>(stream->device_type);
    ARROW_ASSIGN_OR_RAISE(auto chunks, arrow::ImportDeviceChunkedArray(stream, Mapper));
    return arrow::ExportDeviceChunkedArray(chunks, type, out);
  });
}

int adf_cpp_relay_batches(ArrowDeviceArrayStream* stream, ArrowDeviceArrayStream* out) {
  return guarded([&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ImportDeviceRecordBatchReader(stream, Mapper));
    return arrow::ExportDeviceRecordBatchReader(reader, out);
  });
}

int adf_cpp_read_batches(size_t count, ArrowDeviceArrayStream* stream) {
  return guarded([&]() -> Status {
    const bool is_on_host = stream->device_type == ARROW_DEVICE_CPU;
    RecordBatchVector batches;
    {
      ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ImportDeviceRecordBatchReader(stream, Mapper));
      while (batches.size() < count) {
        ARROW_ASSIGN_OR_RAISE(auto batch, reader->Next());
        if (batch == nullptr) break;
        batches.push_back(batch);
      }
    }
    for (const auto& batch : batches) {
      ARROW_ASSIGN_OR_RAISE(auto here, ToHost(batch, is_on_host));
      ARROW_RETURN_NOT_OK(here->ValidateFull());
    }
    return Status::OK();
  });
}

int adf_cpp_equal_streams(ArrowDeviceArrayStream* left, ArrowDeviceArrayStream* right) {
  return guarded([&]() -> Status {
    const bool is_left_on_host = left->device_type == ARROW_DEVICE_CPU;
    const bool is_right_on_host = right->device_type == ARROW_DEVICE_CPU;
    ARROW_ASSIGN_OR_RAISE(auto one, arrow::ImportDeviceChunkedArray(left, Mapper));
    ARROW_ASSIGN_OR_RAISE(auto other, arrow::ImportDeviceChunkedArray(right, Mapper));
    ArrayVector expected;
    for (const auto& chunk : one->chunks()) {
      ARROW_ASSIGN_OR_RAISE(auto here, ToHost(chunk, is_left_on_host));
      ARROW_RETURN_NOT_OK(here->ValidateFull());
      expected.push_back(here);
    }
    return CompareChunks(*other, expected, is_right_on_host);
  });
}

int adf_cpp_export_failing_stream(size_t good, int status, ArrowDeviceArrayStream* out) {
  return guarded([&]() -> Status {
    const char* text = "the reader has failed";
    const Status failures[] = {Status::IOError(text), Status::NotImplemented(text), Status::OutOfMemory(text),
                               Status::Invalid(text), Status::KeyError(text)};
    ARROW_ASSIGN_OR_RAISE(auto numbers, cases::MakeArray({"", arrow::int32(), 6, true, 0, 6}));
    auto batch = RecordBatch::Make(arrow::schema({arrow::field("n", arrow::int32())}), 6, arrow::ArrayVector{numbers});
    auto reader = std::make_shared<FailingReader>(batch, good, failures[std::min(status, 4)]);
    return arrow::ExportDeviceRecordBatchReader(reader, out);
  });
}

}  // extern "C"
