#include <memory>
#include <new>

#include <arrow/api.h>
#include <arrow/c/bridge.h>

#include "exchange.h"

namespace {

using ArrayPtr = std::shared_ptr<arrow::Array>;
using BatchPtr = std::shared_ptr<arrow::RecordBatch>;

// An array or a batch, with its field or schema.
struct Thing {
  ArrayPtr array;
  BatchPtr batch;
  std::shared_ptr<arrow::Field> field;
};

// What a schema is imported as.
struct Known {
  std::shared_ptr<arrow::Field> field;
  std::shared_ptr<arrow::Schema> schema;
};

// What an array is imported as.
struct Imported {
  ArrayPtr array;
  BatchPtr batch;
};

static_assert(sizeof(Known) <= EXCHANGE_PLACE && sizeof(Imported) <= EXCHANGE_PLACE);

int Said(const arrow::Status& status) {
  if (status.ok()) return 0;
  status.Warn();
  return 1;
}

arrow::Status Know(ArrowSchema* schema, int is_batch, Known* known) {
  if (is_batch) return arrow::ImportSchema(schema).Value(&known->schema);
  return arrow::ImportField(schema).Value(&known->field);
}

arrow::Status Import(const Known& known, ArrowDeviceArray* array, Imported* out) {
  if (known.schema) return arrow::ImportDeviceRecordBatch(array, known.schema).Value(&out->batch);
  return arrow::ImportDeviceArray(array, known.field->type()).Value(&out->array);
}

}  // namespace

extern "C" {

void* exchange_hold(ArrowSchema* schema, ArrowDeviceArray* array, int is_batch) {
  Known known;
  Imported imported;
  if (Said(Know(schema, is_batch, &known)) || Said(Import(known, array, &imported))) return nullptr;
  return new Thing{imported.array, imported.batch, known.field};
}

int exchange_export(const void* held, ArrowDeviceArray* out) {
  const auto& thing = *static_cast<const Thing*>(held);
  if (thing.batch) return Said(arrow::ExportDeviceRecordBatch(*thing.batch, nullptr, out));
  return Said(arrow::ExportDeviceArray(*thing.array, nullptr, out));
}

int exchange_export_schema(const void* held, ArrowSchema* out) {
  const auto& thing = *static_cast<const Thing*>(held);
  if (thing.batch) return Said(arrow::ExportSchema(*thing.batch->schema(), out));
  return Said(arrow::ExportField(*thing.field, out));
}

int exchange_know(ArrowSchema* schema, int is_batch, void* place) { return Said(Know(schema, is_batch, new (place) Known)); }

void exchange_forget(void* place) { static_cast<Known*>(place)->~Known(); }

int exchange_import(void* known, ArrowDeviceArray* array, void* place) {
  return Said(Import(*static_cast<Known*>(known), array, new (place) Imported));
}

int exchange_import_both(ArrowSchema* schema, ArrowDeviceArray* array, int is_batch, void* place) {
  auto* out = new (place) Imported;
  if (is_batch) return Said(arrow::ImportDeviceRecordBatch(array, schema).Value(&out->batch));
  return Said(arrow::ImportDeviceArray(array, schema).Value(&out->array));
}

void exchange_clear(void* place) { static_cast<Imported*>(place)->~Imported(); }

int64_t exchange_column(const void* place, int64_t column) {
  return static_cast<const Imported*>(place)->batch->column(static_cast<int>(column))->length();
}

int64_t exchange_number(const void* place, int64_t column, int64_t row) {
  const auto& imported = *static_cast<const Imported*>(place);
  const auto array = imported.batch ? imported.batch->column(static_cast<int>(column)) : imported.array;
  const auto& numbers = static_cast<const arrow::Int64Array&>(*array);
  return numbers.IsNull(row) ? -1 : numbers.Value(row);
}

int exchange_validate(ArrowSchema* schema, ArrowDeviceArray* array, int is_batch) {
  Imported imported;
  if (exchange_import_both(schema, array, is_batch, &imported)) return 1;
  return Said(imported.batch ? imported.batch->ValidateFull() : imported.array->ValidateFull());
}

}  // extern "C"
