// Streams of Arrow C++: its producer to its consumer, through the C structs.
#include <arrow/api.h>
#include <arrow/c/bridge.h>
#include <arrow/util/future.h>
#include <arrow/util/thread_pool.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace {

using arrow::RecordBatch;
using arrow::RecordBatchReader;
using arrow::Result;
using arrow::Status;
using BatchPtr = std::shared_ptr<RecordBatch>;

// Gives the same batch for ever.
class Endless : public RecordBatchReader {
 public:
  explicit Endless(BatchPtr batch) : batch_(std::move(batch)) {}
  std::shared_ptr<arrow::Schema> schema() const override { return batch_->schema(); }
  Status ReadNext(BatchPtr* out) override {
    *out = batch_;
    return Status::OK();
  }

 private:
  const BatchPtr batch_;
};

struct BenchStream {
  std::shared_ptr<RecordBatchReader> reader;
};

struct BenchBatch {
  BatchPtr batch;
};

Result<BenchStream*> Open(ArrowSchema* schema, ArrowDeviceArray* array, bool is_device) {
  ARROW_ASSIGN_OR_RAISE(auto batch, arrow::ImportDeviceRecordBatch(array, schema));
  auto produced = std::make_shared<Endless>(std::move(batch));
  auto stream = std::make_unique<BenchStream>();
  if (is_device) {
    ArrowDeviceArrayStream c_stream;
    ARROW_RETURN_NOT_OK(arrow::ExportDeviceRecordBatchReader(produced, &c_stream));
    ARROW_ASSIGN_OR_RAISE(stream->reader, arrow::ImportDeviceRecordBatchReader(&c_stream));
  } else {
    ArrowArrayStream c_stream;
    ARROW_RETURN_NOT_OK(arrow::ExportRecordBatchReader(produced, &c_stream));
    ARROW_ASSIGN_OR_RAISE(stream->reader, arrow::ImportRecordBatchReader(&c_stream));
  }
  return stream.release();
}

using Clock = std::chrono::steady_clock;

int64_t Nanoseconds(Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

template <typename T>
Result<T> Await(const arrow::Future<T>& future) {
  future.Wait();
  return future.result();
}

// The producer on a thread, the consumer on this one, and the consumer's executor on a third, which
// it cannot do without.
Status Exchange(const BatchPtr& batch, uint64_t window, int64_t warm, int64_t count, int64_t* took, int64_t* p99) {
  ARROW_ASSIGN_OR_RAISE(auto pool, arrow::internal::ThreadPool::Make(1));
  ArrowAsyncDeviceStreamHandler handler{};
  auto opened = arrow::CreateAsyncDeviceStreamHandler(&handler, pool.get(), window);
  Status produced;
  std::thread producer([&] {
    auto left = std::make_shared<int64_t>(warm + count);
    auto generator = [left, batch]() -> arrow::Future<BatchPtr> {
      return arrow::Future<BatchPtr>::MakeFinished((*left)-- > 0 ? batch : nullptr);
    };
    auto over = arrow::ExportAsyncRecordBatchReader(batch->schema(), generator, arrow::DeviceAllocationType::kCPU, &handler);
    over.Wait();
    produced = over.status();
  });
  std::vector<int64_t> gaps;
  gaps.reserve(count);
  auto consume = [&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(auto stream, Await(opened));
    for (int64_t index = 0; index < warm; ++index) {
      ARROW_ASSIGN_OR_RAISE(auto next, Await(stream.generator()));
      if (next.batch == nullptr) return Status::Invalid("it ends too early");
    }
    const auto start = Clock::now();
    auto last = start;
    for (int64_t index = 0; index < count; ++index) {
      ARROW_ASSIGN_OR_RAISE(auto next, Await(stream.generator()));
      if (next.batch == nullptr || next.batch->num_rows() != batch->num_rows()) return Status::Invalid("another batch");
      if (p99 != nullptr) {
        const auto now = Clock::now();
        gaps.push_back(Nanoseconds(now - last));
        last = now;
      }
    }
    *took = Nanoseconds(Clock::now() - start);
    ARROW_ASSIGN_OR_RAISE(auto end, Await(stream.generator()));
    return end.batch == nullptr ? Status::OK() : Status::Invalid("it goes on too long");
  };
  const auto consumed = consume();
  producer.join();
  ARROW_RETURN_NOT_OK(pool->Shutdown(/*wait=*/true));
  ARROW_RETURN_NOT_OK(consumed);
  if (p99 != nullptr) {
    std::sort(gaps.begin(), gaps.end());
    *p99 = gaps[gaps.size() * 99 / 100];
  }
  return produced;
}

}  // namespace

extern "C" {

BenchStream* bench_cpp_open(ArrowSchema* schema, ArrowDeviceArray* array, int is_device) {
  return Open(schema, array, is_device != 0).ValueOr(nullptr);
}

// The rows of the next batch, or -1.
int64_t bench_cpp_next(BenchStream* stream) {
  BatchPtr batch;
  if (!stream->reader->ReadNext(&batch).ok() || batch == nullptr) return -1;
  return batch->num_rows();
}

// The value of the last row of the last column of the next batch, fully validated.
int64_t bench_cpp_last(BenchStream* stream) {
  BatchPtr batch;
  if (!stream->reader->ReadNext(&batch).ok() || batch == nullptr || !batch->ValidateFull().ok()) return -1;
  const auto column = batch->column(batch->num_columns() - 1);
  return static_cast<const arrow::Int64Array&>(*column).Value(batch->num_rows() - 1);
}

BenchBatch* bench_cpp_batch(ArrowSchema* schema, ArrowDeviceArray* array) {
  auto batch = arrow::ImportDeviceRecordBatch(array, schema);
  return batch.ok() ? new BenchBatch{*batch} : nullptr;
}

// Nanoseconds for `count` batches after the first `warm` ones, or -1; the 99th percentile of one of
// them if that is wanted.
int64_t bench_cpp_exchange(BenchBatch* batch, uint64_t window, int64_t warm, int64_t count, int64_t* p99) {
  int64_t took = -1;
  const auto status = Exchange(batch->batch, window, warm, count, &took, p99);
  return status.ok() ? took : -1;
}

}  // extern "C"
