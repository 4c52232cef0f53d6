#include "async.h"

#include <arrow/util/future.h>
#include <arrow/util/thread_pool.h>

#include "common.h"

using arrow::AsyncRecordBatchGenerator;
using arrow::Future;
using arrow::RecordBatch;
using arrow::RecordBatchVector;
using arrow::Result;
using arrow::Status;
using BatchPtr = std::shared_ptr<RecordBatch>;

struct AdfReader {
  ArrowAsyncDeviceStreamHandler handler{};
  std::shared_ptr<arrow::internal::ThreadPool> pool;
  Future<AsyncRecordBatchGenerator> opened;
  // Once it is opened.
  std::unique_ptr<AsyncRecordBatchGenerator> stream;
};

namespace {

template <typename T>
Result<T> WithCode(const Result<T>& result) {
  const auto& status = result.status();
  const auto detail = std::dynamic_pointer_cast<arrow::AsyncErrorDetail>(status.detail());
  if (detail == nullptr) return result;
  return Status::Invalid("code ", detail->code(), ": ", detail->ToString());
}

template <typename T>
Result<T> Await(const Future<T>& future, double seconds) {
  if (!future.Wait(seconds)) return Status::Cancelled("timed out");
  return WithCode(future.result());
}

Status Open(AdfReader* reader, double seconds) {
  if (reader->stream != nullptr) return Status::OK();
  ARROW_ASSIGN_OR_RAISE(auto stream, Await(reader->opened, seconds));
  reader->stream = std::make_unique<AsyncRecordBatchGenerator>(std::move(stream));
  return Status::OK();
}

Result<BatchPtr> Next(AdfReader* reader, double seconds) {
  ARROW_ASSIGN_OR_RAISE(auto next, Await(reader->stream->generator(), seconds));
  return next.batch;
}

Status Produce(const std::shared_ptr<arrow::Schema>& schema, RecordBatchVector batches, size_t good,
               arrow::DeviceAllocationType type, double seconds, ArrowAsyncDeviceStreamHandler* handler) {
  auto left = std::make_shared<RecordBatchVector>(std::move(batches));
  auto given = std::make_shared<size_t>(0);
  auto generator = [left, given, good]() -> Future<BatchPtr> {
    const size_t index = (*given)++;
    if (index == good) return Future<BatchPtr>::MakeFinished(Status::IOError("the generator has failed"));
    return Future<BatchPtr>::MakeFinished(index < left->size() ? (*left)[index] : nullptr);
  };
  auto over = arrow::ExportAsyncRecordBatchReader(schema, generator, type, handler);
  if (!over.Wait(seconds)) return Status::Cancelled("timed out");
  return over.status();
}

}  // namespace

extern "C" {

int adf_reader_open(uint64_t window, AdfReader** out) {
  return guarded([&]() -> Status {
    auto reader = std::make_unique<AdfReader>();
    ARROW_ASSIGN_OR_RAISE(reader->pool, arrow::internal::ThreadPool::Make(2));
    reader->opened = arrow::CreateAsyncDeviceStreamHandler(&reader->handler, reader->pool.get(), window, Mapper);
    *out = reader.release();
    return Status::OK();
  });
}

ArrowAsyncDeviceStreamHandler* adf_reader_handler(AdfReader* reader) { return &reader->handler; }

int adf_reader_compare(AdfReader* reader, size_t number, int place, double seconds) {
  return guarded([&]() -> Status {
    ARROW_RETURN_NOT_OK(Open(reader, seconds));
    return CompareBatches(*reader->stream->schema, [&] { return Next(reader, seconds); }, number, place);
  });
}

int adf_reader_read(AdfReader* reader, size_t count, double seconds, size_t* read) {
  return guarded([&]() -> Status {
    ARROW_RETURN_NOT_OK(Open(reader, seconds));
    for (*read = 0; *read < count; ++*read) {
      ARROW_ASSIGN_OR_RAISE(auto batch, Next(reader, seconds));
      if (batch == nullptr) break;
      ARROW_RETURN_NOT_OK(batch->Validate());
    }
    return Status::OK();
  });
}

int adf_reader_drop(AdfReader* reader) {
  return guarded([&]() -> Status {
    reader->stream.reset();
    reader->opened = {};
    // Its threads end when they have nothing to do; one that waits for ever is not waited for.
    ARROW_RETURN_NOT_OK(reader->pool->Shutdown(/*wait=*/false));
    reader->pool.reset();
    return Status::OK();
  });
}

void adf_reader_free(AdfReader* reader) { delete reader; }

int adf_produce(size_t number, int place, size_t good, double seconds, ArrowAsyncDeviceStreamHandler* handler) {
  return guarded([&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(auto batches, Batches(number, place));
    const auto type = place == ADF_HOST ? arrow::DeviceAllocationType::kCPU : arrow::DeviceAllocationType::kEXT_DEV;
    const auto schema = batches[0]->schema();
    return Produce(schema, std::move(batches), good, type, seconds, handler);
  });
}

int adf_produce_nothing(double seconds, ArrowAsyncDeviceStreamHandler* handler) {
  return guarded([&]() -> Status {
    const auto schema = arrow::schema({arrow::field("numbers", arrow::int32())});
    return Produce(schema, {}, SIZE_MAX, arrow::DeviceAllocationType::kCPU, seconds, handler);
  });
}

int adf_produce_broken(double seconds, ArrowAsyncDeviceStreamHandler* handler) {
  return guarded([&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(auto views, cases::MakeArray({"", arrow::utf8_view(), 6, false, 0, 6}));
    auto broken = views->data()->Copy();
    broken->buffers.push_back(nullptr);
    auto schema = arrow::schema({arrow::field("views", arrow::utf8_view())});
    auto batch = RecordBatch::Make(schema, 6, std::vector<std::shared_ptr<arrow::ArrayData>>{broken});
    return Produce(schema, {batch}, SIZE_MAX, arrow::DeviceAllocationType::kCPU, seconds, handler);
  });
}

}  // extern "C"
