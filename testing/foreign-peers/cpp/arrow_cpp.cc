#include "arrow_cpp.h"

#include <arrow/api.h>
#include <arrow/c/bridge.h>
#include <arrow/config.h>

#include "common.h"

namespace {

using arrow::Array;
using arrow::Field;
using arrow::RecordBatch;
using arrow::Result;
using arrow::Status;
using ArrayPtr = std::shared_ptr<Array>;
using BatchPtr = std::shared_ptr<RecordBatch>;
using FieldPtr = std::shared_ptr<Field>;

thread_local std::string last_error;

// The software device in use. The tests take turns.
std::shared_ptr<sim::Manager> device;

FieldPtr FieldOf(const cases::Case& which) {
  return arrow::field("column", which.type, true, arrow::key_value_metadata({"key"}, {"value"}));
}

// Arrow C++ is not asked where an array lies: it takes a struct for one on the host if its first
// child is of the null type.
bool IsOnHost(const ArrowDeviceArray& array) { return array.device_type == ARROW_DEVICE_CPU; }

Status CompareArray(const cases::Case& which, const ArrayPtr& array, const FieldPtr& field) {
  ARROW_ASSIGN_OR_RAISE(auto expected, cases::MakeArray(which));
  ARROW_RETURN_NOT_OK(array->ValidateFull());
  if (!field->Equals(*FieldOf(which), /*check_metadata=*/true)) {
    return Status::Invalid("the field is ", field->ToString(true));
  }
  return RequireEqual(*expected, *array);
}

Status CompareBatch(const cases::Case& which, const BatchPtr& batch) {
  ARROW_ASSIGN_OR_RAISE(auto expected, cases::MakeBatch(which));
  ARROW_RETURN_NOT_OK(batch->ValidateFull());
  return Require(batch->Equals(*expected, /*check_metadata=*/true, Strictly()), "the batches differ");
}

// The case and whether it is a batch.
Result<std::pair<const cases::Case*, bool>> Find(size_t number) {
  const auto& arrays = cases::Arrays();
  const auto& batches = cases::Batches();
  if (number < arrays.size()) return std::make_pair(&arrays[number], false);
  if (number < arrays.size() + batches.size()) return std::make_pair(&batches[number - arrays.size()], true);
  return Status::Invalid("there is no case ", number);
}

Result<ArrayPtr> NumbersWithNulls() {
  return cases::MakeArray({"", arrow::int32(), 6, true, 0, 6});
}

}  // namespace

int Remember(const Status& status) {
  last_error = status.ToString();
  return status.ok() ? 0 : 1;
}

Result<std::shared_ptr<arrow::MemoryManager>> Mapper(ArrowDeviceType type, int64_t id) {
  if (type == ARROW_DEVICE_EXT_DEV && device != nullptr && id == device->device()->device_id()) return device;
  return arrow::DefaultDeviceMemoryMapper(type, id);
}

Result<std::shared_ptr<sim::Manager>> Device() {
  if (device == nullptr) return Status::Invalid("no software device is in use");
  return device;
}

Status Require(bool holds, const std::string& complaint) {
  return holds ? Status::OK() : Status::Invalid(complaint);
}

const arrow::EqualOptions& Strictly() {
  static const auto options = arrow::EqualOptions::Defaults().nans_equal(true).signed_zeros_equal(false);
  return options;
}

Status RequireEqual(const Array& left, const Array& right) {
  if (left.Equals(right, Strictly())) return Status::OK();
  return Status::Invalid("they differ: ", left.ToString(), " and ", right.ToString());
}

void CountNulls(const arrow::ArrayData& data) {
  data.GetNullCount();
  for (const auto& child : data.child_data) CountNulls(*child);
  if (data.dictionary != nullptr) CountNulls(*data.dictionary);
}

void CountNulls(const Array& array) { CountNulls(*array.data()); }

void CountNulls(const RecordBatch& batch) {
  for (const auto& column : batch.column_data()) CountNulls(*column);
}

extern "C" {

const char* adf_cpp_last_error(void) { return last_error.c_str(); }

const char* adf_cpp_version(void) { return arrow::GetBuildInfo().version_string.c_str(); }

int64_t adf_cpp_allocated(void) { return arrow::default_memory_pool()->bytes_allocated(); }

int adf_cpp_use_sim(const AdfSimFunctions* functions, ArrowDeviceSim* sim) {
  return guarded([&]() -> Status {
    device = nullptr;
    if (sim == nullptr) return Status::OK();
    ARROW_ASSIGN_OR_RAISE(device, sim::Manager::Open(*functions, sim));
    return Status::OK();
  });
}

size_t adf_cpp_array_count(void) { return cases::Arrays().size(); }

size_t adf_cpp_batch_count(void) { return cases::Batches().size(); }

const char* adf_cpp_case_name(size_t number) {
  const auto found = Find(number);
  return found.ok() ? found->first->name.c_str() : "no such case";
}

int adf_cpp_export(size_t number, int place, ArrowSchema* schema, ArrowDeviceArray* out) {
  return guarded([&]() -> Status {
    ARROW_RETURN_NOT_OK(cases::RegisterExtension());
    ARROW_ASSIGN_OR_RAISE(auto found, Find(number));
    if (found.second) {
      ARROW_ASSIGN_OR_RAISE(auto batch, cases::MakeBatch(*found.first));
      ARROW_RETURN_NOT_OK(batch->ValidateFull());
      ARROW_ASSIGN_OR_RAISE(auto placed, Place(batch, place));
      return arrow::ExportDeviceRecordBatch(*placed.first, placed.second, out, schema);
    }
    ARROW_ASSIGN_OR_RAISE(auto array, cases::MakeArray(*found.first));
    ARROW_RETURN_NOT_OK(array->ValidateFull());
    ARROW_ASSIGN_OR_RAISE(auto placed, Place(array, place));
    ARROW_RETURN_NOT_OK(arrow::ExportField(*FieldOf(*found.first), schema));
    return arrow::ExportDeviceArray(*placed.first, placed.second, out);
  });
}

int adf_cpp_export_plain(size_t number, ArrowSchema* schema, ArrowArray* out) {
  return guarded([&]() -> Status {
    ARROW_RETURN_NOT_OK(cases::RegisterExtension());
    ARROW_ASSIGN_OR_RAISE(auto found, Find(number));
    if (found.second) {
      ARROW_ASSIGN_OR_RAISE(auto batch, cases::MakeBatch(*found.first));
      return arrow::ExportRecordBatch(*batch, out, schema);
    }
    ARROW_ASSIGN_OR_RAISE(auto array, cases::MakeArray(*found.first));
    ARROW_RETURN_NOT_OK(arrow::ExportField(*FieldOf(*found.first), schema));
    return arrow::ExportArray(*array, out);
  });
}

int adf_cpp_compare(size_t number, ArrowSchema* schema, ArrowDeviceArray* array) {
  return guarded([&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(auto found, Find(number));
    const bool is_on_host = IsOnHost(*array);
    if (found.second) {
      ARROW_ASSIGN_OR_RAISE(auto imported, arrow::ImportDeviceRecordBatch(array, schema, Mapper));
      ARROW_ASSIGN_OR_RAISE(auto batch, ToHost(imported, is_on_host));
      return CompareBatch(*found.first, batch);
    }
    ARROW_ASSIGN_OR_RAISE(auto field, arrow::ImportField(schema));
    ARROW_ASSIGN_OR_RAISE(auto imported, arrow::ImportDeviceArray(array, field->type(), Mapper));
    ARROW_ASSIGN_OR_RAISE(auto here, ToHost(imported, is_on_host));
    return CompareArray(*found.first, here, field);
  });
}

int adf_cpp_compare_plain(size_t number, ArrowSchema* schema, ArrowArray* array) {
  return guarded([&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(auto found, Find(number));
    if (found.second) {
      ARROW_ASSIGN_OR_RAISE(auto batch, arrow::ImportRecordBatch(array, schema));
      return CompareBatch(*found.first, batch);
    }
    ARROW_ASSIGN_OR_RAISE(auto field, arrow::ImportField(schema));
    ARROW_ASSIGN_OR_RAISE(auto imported, arrow::ImportArray(array, field->type()));
    return CompareArray(*found.first, imported, field);
  });
}

int adf_cpp_relay(ArrowSchema* schema, ArrowDeviceArray* array, ArrowSchema* out_schema, ArrowDeviceArray* out_array) {
  return guarded([&]() -> Status {
    const bool is_on_host = IsOnHost(*array);
    ARROW_ASSIGN_OR_RAISE(auto field, arrow::ImportField(schema));
    ARROW_ASSIGN_OR_RAISE(auto imported, arrow::ImportDeviceArray(array, field->type(), Mapper));
    ARROW_ASSIGN_OR_RAISE(auto on_host, ToHost(imported, is_on_host));
    ARROW_RETURN_NOT_OK(on_host->ValidateFull());
    ARROW_RETURN_NOT_OK(arrow::ExportDeviceArray(*imported, nullptr, out_array));
    return arrow::ExportField(*field, out_schema);
  });
}

int adf_cpp_equal(ArrowSchema* schema, ArrowDeviceArray* left, ArrowDeviceArray* right) {
  return guarded([&]() -> Status {
    const bool is_left_on_host = IsOnHost(*left);
    const bool is_right_on_host = IsOnHost(*right);
    ARROW_ASSIGN_OR_RAISE(auto field, arrow::ImportField(schema));
    ARROW_ASSIGN_OR_RAISE(auto one, arrow::ImportDeviceArray(left, field->type(), Mapper));
    ARROW_ASSIGN_OR_RAISE(auto other, arrow::ImportDeviceArray(right, field->type(), Mapper));
    ARROW_ASSIGN_OR_RAISE(auto one_here, ToHost(one, is_left_on_host));
    ARROW_ASSIGN_OR_RAISE(auto other_here, ToHost(other, is_right_on_host));
    ARROW_RETURN_NOT_OK(one_here->ValidateFull());
    ARROW_RETURN_NOT_OK(other_here->ValidateFull());
    return RequireEqual(*one_here, *other_here);
  });
}

int adf_cpp_import(ArrowSchema* schema, ArrowDeviceArray* array) {
  return guarded([&]() -> Status { return arrow::ImportDeviceArray(array, schema, Mapper).status(); });
}

int adf_cpp_import_batch(ArrowSchema* schema, ArrowDeviceArray* array) {
  return guarded([&]() -> Status { return arrow::ImportDeviceRecordBatch(array, schema, Mapper).status(); });
}

int adf_cpp_validate(ArrowSchema* schema, ArrowDeviceArray* array) {
  return guarded([&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(auto imported, arrow::ImportDeviceArray(array, schema, Mapper));
    return imported->Validate();
  });
}

int adf_cpp_knows_device(ArrowSchema* schema, ArrowDeviceArray* array) {
  return guarded([&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(auto imported, arrow::ImportDeviceArray(array, schema, Mapper));
    const bool knows = imported->device_type() == arrow::DeviceAllocationType::kEXT_DEV;
    return Require(knows, "it is said to be on the host");
  });
}

int adf_cpp_slice_keeps_event(ArrowSchema* schema, ArrowDeviceArray* array) {
  return guarded([&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(auto imported, arrow::ImportDeviceArray(array, schema, Mapper));
    const auto& buffer = imported->data()->buffers[1];
    ARROW_RETURN_NOT_OK(Require(buffer->device_sync_event() != nullptr, "the buffer itself has no event"));
    const auto slice = arrow::SliceBuffer(buffer, 4, 4);
    return Require(slice->device_sync_event() != nullptr, "the slice has no event");
  });
}

int adf_cpp_export_device_slice(ArrowSchema* schema, ArrowDeviceArray* array) {
  return guarded([&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(auto numbers, NumbersWithNulls());
    ARROW_ASSIGN_OR_RAISE(auto manager, Device());
    ARROW_ASSIGN_OR_RAISE(auto there, numbers->CopyTo(manager));
    return arrow::ExportDeviceArray(*there->Slice(1, 3), nullptr, array, schema);
  });
}

int adf_cpp_export_mixed_dictionary(ArrowSchema* schema, ArrowDeviceArray* array) {
  return guarded([&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(auto keys, cases::MakeArray({"", arrow::dictionary(arrow::int8(), arrow::utf8()), 6, false, 0, 6}));
    ARROW_ASSIGN_OR_RAISE(auto manager, Device());
    ARROW_ASSIGN_OR_RAISE(auto there, keys->data()->CopyTo(manager));
    there->dictionary = keys->data()->dictionary;
    return arrow::ExportDeviceArray(*arrow::MakeArray(there), nullptr, array, schema);
  });
}

int adf_cpp_export_broken_view(ArrowDeviceArray* array) {
  return guarded([&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(auto views, cases::MakeArray({"", arrow::utf8_view(), 6, false, 0, 6}));
    auto broken = views->data()->Copy();
    broken->buffers.push_back(nullptr);
    return arrow::ExportDeviceArray(*arrow::MakeArray(broken), nullptr, array);
  });
}

}  // extern "C"
