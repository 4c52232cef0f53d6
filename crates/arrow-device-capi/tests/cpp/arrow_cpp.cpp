// Arrow C++ and arrow_device.hpp: everything that either has goes to the other and back.
#include <arrow_device/arrow_cpp.hpp>

#include "checks.hpp"

using namespace arrow_device;

static std::shared_ptr<arrow::RecordBatch> made(int64_t first) {
  arrow::Int64Builder ids;
  arrow::StringBuilder names;
  CHECK(ids.AppendValues({first, first + 1}).ok() && names.Append("one").ok() && names.AppendNull().ok());
  auto schema = arrow::schema({arrow::field("id", arrow::int64()), arrow::field("name", arrow::utf8())});
  return arrow::RecordBatch::Make(schema, 2, {ids.Finish().ValueOrDie(), names.Finish().ValueOrDie()});
}

int main() {
  const std::shared_ptr<arrow::RecordBatch> batch = made(1);

  const Schema schema = MUST(from_arrow(*batch->schema()));
  CHECK(MUST(to_arrow_schema(schema))->Equals(*batch->schema()));
  CHECK(MUST(to_arrow_field(MUST(from_arrow(*arrow::field("x", arrow::float32())))))->name() == "x");
  CHECK(MUST(MUST(from_arrow(*arrow::int8())).format()) == "c");

  const Array array = MUST(from_arrow(*batch));
  MUST(array.validate());
  {
    const Array names = MUST(array.column(1));
    const HostView view = MUST(names.view(host));
    CHECK(MUST(view.text(0)) == "one" && !view.is_valid(1));
  }
  CHECK(MUST(to_arrow_batch(array))->Equals(*batch));
  CHECK(MUST(to_arrow_array(MUST(array.column(0))))->Equals(*batch->column(0)));
  CHECK(numbers_of(MUST(from_arrow(*batch->column(0)))) == (Numbers{1, 2}));

  // Streams, there and back.
  auto reader = arrow::RecordBatchReader::Make({batch, made(3)}, batch->schema()).ValueOrDie();
  const std::shared_ptr<arrow::RecordBatchReader> again = MUST(to_arrow_reader(MUST(from_arrow(reader))));
  const auto batches = again->ToRecordBatches().ValueOrDie();
  CHECK(batches.size() == 2 && batches[0]->Equals(*batch) && batches[1]->Equals(*made(3)));

  // An array of numbers is no record batch: that is said by Arrow C++.
  const Array numbers = MUST(array.column(0));
  CHECK(error_of([&] { return to_arrow_batch(numbers); }).kind() == Kind::peer);
  std::puts("all is well");
  return 0;
}
