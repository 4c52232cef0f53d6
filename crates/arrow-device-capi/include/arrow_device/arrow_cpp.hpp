// Arrow C++ and arrow_device.hpp: types, arrays, record batches and readers, both ways, without a
// copy. A header of its own, for programs that are built with Arrow C++ 16 or later.
//
//   Array array = from_arrow(*batch);                                  // an arrow::RecordBatch
//   std::shared_ptr<arrow::RecordBatch> batch = to_arrow_batch(array);
//
// Arrow C++ reaches memory of the host. To reach memory of a device, its
// `arrow::DeviceMemoryMapper` has to know the device.

#ifndef ARROW_DEVICE_ARROW_CPP_HPP_
#define ARROW_DEVICE_ARROW_CPP_HPP_

#include <arrow/api.h>
#include <arrow/c/bridge.h>

#include "arrow_device.hpp"

namespace arrow_device {
inline namespace ARROW_DEVICE_FORM {

namespace detail {

// A failure of Arrow C++, as an error of another party.
inline Error error_of(const arrow::Status& status) {
  if (status.IsOutOfMemory()) return Error(Kind::out_of_memory, ENOMEM, status.ToString());
  if (status.IsNotImplemented()) return Error(Kind::unsupported, ENOSYS, status.ToString());
  if (status.IsCancelled()) return Error(Kind::cancelled, ECANCELED, status.ToString());
  return Error(Kind::peer, EPROTO, status.ToString());
}

template <typename T>
Result<T> result_of(arrow::Result<T> result) {
  if (!result.ok()) return error_of(result.status());
  return std::move(result).ValueUnsafe();
}

inline Result<Exported<ArrowSchema>> c_schema_of(const Schema& schema) {
  return exported<ArrowSchema>(
      host, [&](auto out, auto error) { return ardev_schema_export(schema.get(), out, error); });
}

inline Result<Exported<ArrowSchema>> c_schema_of(const Array& array) {
  auto schema =
      made<Schema>([&](auto out, auto error) { return ardev_array_schema(array.get(), out, error); });
  if (!schema) return schema.error();
  return c_schema_of(*schema);
}

// A type that a function of Arrow C++ writes.
template <typename F>
Result<Schema> schema_from(F&& write) {
  Exported<ArrowSchema> c_schema;
  const arrow::Status status = write(c_schema.get());
  if (!status.ok()) return error_of(status);
  return made<Schema>([&](auto out, auto error) { return ardev_schema_import(c_schema.get(), out, error); });
}

// An array and its type that a function of Arrow C++ writes.
template <typename F>
Result<Array> array_from(F&& write) {
  Exported<ArrowSchema> c_schema;
  Exported<ArrowDeviceArray> c_array;
  const arrow::Status status = write(c_array.get(), c_schema.get());
  if (!status.ok()) return error_of(status);
  auto schema =
      made<Schema>([&](auto out, auto error) { return ardev_schema_import(c_schema.get(), out, error); });
  if (!schema) return schema.error();
  return made<Array>(
      [&](auto out, auto error) { return ardev_array_import(c_array.get(), schema->get(), out, error); });
}

// Hands an array to a function of Arrow C++, which takes it over.
template <typename T, typename F>
Result<T> array_to(const Array& array, Lane lane, F&& read) {
  auto c_schema = c_schema_of(array);
  if (!c_schema) return c_schema.error();
  auto c_array = exported<ArrowDeviceArray>(
      lane, [&](auto out, auto error) { return ardev_array_export(array.get(), lane.get(), out, error); });
  if (!c_array) return c_array.error();
  return result_of(read(c_array->get(), c_schema->get()));
}

}  // namespace detail

// ------------------------------------------------------------------------------- from Arrow C++

[[nodiscard]] inline Outcome<Schema> from_arrow(const arrow::Schema& schema) {
  return detail::outcome(detail::schema_from([&](auto out) { return arrow::ExportSchema(schema, out); }));
}
[[nodiscard]] inline Outcome<Schema> from_arrow(const arrow::Field& field) {
  return detail::outcome(detail::schema_from([&](auto out) { return arrow::ExportField(field, out); }));
}
[[nodiscard]] inline Outcome<Schema> from_arrow(const arrow::DataType& type) {
  return detail::outcome(detail::schema_from([&](auto out) { return arrow::ExportType(type, out); }));
}
// If the data is not ready yet, the array waits for `event`.
[[nodiscard]] inline Outcome<Array> from_arrow(const arrow::Array& array,
                                               std::shared_ptr<arrow::Device::SyncEvent> event = nullptr) {
  return detail::outcome(detail::array_from([&](auto out, auto out_schema) {
    return arrow::ExportDeviceArray(array, std::move(event), out, out_schema);
  }));
}
[[nodiscard]] inline Outcome<Array> from_arrow(const arrow::RecordBatch& batch) {
  return detail::outcome(detail::array_from([&](auto out, auto out_schema) {
    return arrow::ExportDeviceRecordBatch(batch, batch.GetSyncEvent(), out, out_schema);
  }));
}
// A stream of the record batches that are left in the reader.
[[nodiscard]] inline Outcome<Stream> from_arrow(std::shared_ptr<arrow::RecordBatchReader> reader) {
  Exported<ArrowDeviceArrayStream> c_stream;
  const arrow::Status status = arrow::ExportDeviceRecordBatchReader(std::move(reader), c_stream.get());
  if (!status.ok()) return detail::outcome(Result<Stream>(detail::error_of(status)));
  return Stream::import_from(c_stream.get());
}

// --------------------------------------------------------------------------------- to Arrow C++

[[nodiscard]] inline Outcome<std::shared_ptr<arrow::Schema>> to_arrow_schema(const Schema& schema) {
  using Out = Result<std::shared_ptr<arrow::Schema>>;
  auto c_schema = detail::c_schema_of(schema);
  if (!c_schema) return detail::outcome(Out(c_schema.error()));
  return detail::outcome(detail::result_of(arrow::ImportSchema(c_schema->get())));
}
[[nodiscard]] inline Outcome<std::shared_ptr<arrow::Field>> to_arrow_field(const Schema& schema) {
  using Out = Result<std::shared_ptr<arrow::Field>>;
  auto c_schema = detail::c_schema_of(schema);
  if (!c_schema) return detail::outcome(Out(c_schema.error()));
  return detail::outcome(detail::result_of(arrow::ImportField(c_schema->get())));
}
// The lane is as for `Array::exported`.
[[nodiscard]] inline Outcome<std::shared_ptr<arrow::Array>> to_arrow_array(
    const Array& array, Lane lane = host,
    const arrow::DeviceMemoryMapper& mapper = arrow::DefaultDeviceMemoryMapper) {
  return detail::outcome(detail::array_to<std::shared_ptr<arrow::Array>>(
      array, lane, [&](auto c_array, auto c_schema) { return arrow::ImportDeviceArray(c_array, c_schema, mapper); }));
}
// The array is one of structs.
[[nodiscard]] inline Outcome<std::shared_ptr<arrow::RecordBatch>> to_arrow_batch(
    const Array& array, Lane lane = host,
    const arrow::DeviceMemoryMapper& mapper = arrow::DefaultDeviceMemoryMapper) {
  return detail::outcome(
      detail::array_to<std::shared_ptr<arrow::RecordBatch>>(array, lane, [&](auto c_array, auto c_schema) {
        return arrow::ImportDeviceRecordBatch(c_array, c_schema, mapper);
      }));
}
// A reader of what is left in the stream, which is empty after this. Its arrays are structs.
[[nodiscard]] inline Outcome<std::shared_ptr<arrow::RecordBatchReader>> to_arrow_reader(
    const Stream& stream, Lane lane = host,
    const arrow::DeviceMemoryMapper& mapper = arrow::DefaultDeviceMemoryMapper) {
  using Out = Result<std::shared_ptr<arrow::RecordBatchReader>>;
  auto c_stream = detail::exported<ArrowDeviceArrayStream>(
      lane, [&](auto out, auto error) { return ardev_stream_export(stream.get(), lane.get(), out, error); });
  if (!c_stream) return detail::outcome(Out(c_stream.error()));
  return detail::outcome(detail::result_of(arrow::ImportDeviceRecordBatchReader(c_stream->get(), mapper)));
}

}  // namespace ARROW_DEVICE_FORM
}  // namespace arrow_device

#endif  // ARROW_DEVICE_ARROW_CPP_HPP_
