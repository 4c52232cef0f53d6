#include "checked.h"

#include <arrow/api.h>
#include <arrow/c/bridge.h>

#include "common.h"

namespace {

using arrow::ArrayData;
using arrow::Buffer;
using arrow::RecordBatch;
using arrow::Result;
using arrow::Status;
using ArrayPtr = std::shared_ptr<arrow::Array>;
using BatchPtr = std::shared_ptr<RecordBatch>;
using BufferPtr = std::shared_ptr<Buffer>;
using DataPtr = std::shared_ptr<ArrayData>;
using EventPtr = std::shared_ptr<arrow::Device::SyncEvent>;

// ---- the functions of check.h as those of sim_c.h

const ArrowDeviceCheckContext* Of(const ArrowDeviceSim* sim) {
  return reinterpret_cast<const ArrowDeviceCheckContext*>(sim);
}

int64_t DeviceId(const ArrowDeviceSim* sim) { return Of(sim)->device_id; }
int Allocate(ArrowDeviceSim* sim, uint64_t length, void** out) { return Of(sim)->allocate(Of(sim), length, out); }
void Free(ArrowDeviceSim* sim, void* memory, uint64_t length) { Of(sim)->free(Of(sim), memory, length); }
int OpenQueue(ArrowDeviceSim* sim, void** out) { return Of(sim)->open_queue(Of(sim), out); }
// The device is gone when the static variables of this library go, and with it the queue.
void KeepQueue(ArrowDeviceSim*, void*) {}
int CopyToDevice(ArrowDeviceSim* sim, void* queue, void* to, const void* from, uint64_t length) {
  return Of(sim)->copy_to_device(Of(sim), queue, to, from, length);
}
int CopyToHost(ArrowDeviceSim* sim, void* queue, void* to, const void* from, uint64_t length) {
  return Of(sim)->copy_to_host(Of(sim), queue, to, from, length);
}
int Record(ArrowDeviceSim* sim, void* queue, ArrowDeviceSimEvent** out) {
  return Of(sim)->record(Of(sim), queue, reinterpret_cast<void**>(out));
}
void DestroyEvent(ArrowDeviceSim* sim, ArrowDeviceSimEvent* event) { Of(sim)->destroy_event(Of(sim), event); }
int Synchronize(ArrowDeviceSim* sim, void* queue) { return Of(sim)->synchronize(Of(sim), queue); }
const char* LastError() { return "the checker's device has failed"; }

const AdfSimFunctions functions = {DeviceId,   Allocate, Free,         OpenQueue,   KeepQueue, CopyToDevice,
                                   CopyToHost, Record,   DestroyEvent, Synchronize, LastError};

Result<std::shared_ptr<arrow::MemoryManager>> Find(int64_t id) {
  ARROW_ASSIGN_OR_RAISE(auto manager, Device());
  if (manager->device()->device_id() != id) return Status::KeyError("software device ", id, " is not in use");
  return manager;
}

// What the host reads in place needs no device.
Result<std::shared_ptr<arrow::MemoryManager>> Pinned(int64_t) { return arrow::default_cpu_memory_manager(); }

Status Register() {
  ARROW_RETURN_NOT_OK(arrow::RegisterDeviceMapper(arrow::DeviceAllocationType::kEXT_DEV, Find));
  return arrow::RegisterDeviceMapper(arrow::DeviceAllocationType::kCUDA_HOST, Pinned);
}

// ---- arrays and batches

EventPtr EventOf(const ArrayData& data) {
  for (const auto& buffer : data.buffers) {
    if (buffer != nullptr && buffer->device_sync_event() != nullptr) return buffer->device_sync_event();
  }
  for (const auto& child : data.child_data) {
    if (auto event = EventOf(*child)) return event;
  }
  return data.dictionary == nullptr ? nullptr : EventOf(*data.dictionary);
}

// The same array with something in the place of each buffer.
template <typename Change>
DataPtr WithBuffers(const ArrayData& data, const Change& change) {
  auto changed = data.Copy();
  for (auto& buffer : changed->buffers) {
    if (buffer != nullptr) buffer = change(buffer);
  }
  for (auto& child : changed->child_data) child = WithBuffers(*child, change);
  if (changed->dictionary != nullptr) changed->dictionary = WithBuffers(*changed->dictionary, change);
  return changed;
}

BufferPtr SliceOfAll(const BufferPtr& buffer) { return arrow::SliceBuffer(buffer, 0, buffer->size()); }

// Memory that nobody has an event for.
BufferPtr SameMemory(const BufferPtr& buffer) {
  return std::make_shared<Buffer>(buffer->address(), buffer->size(), buffer->memory_manager(), buffer);
}

Status Forward(ArrowSchema* schema, ArrowDeviceArray* array, ArrowSchema* out_schema, ArrowDeviceArray* out_array,
               bool slices) {
  ARROW_ASSIGN_OR_RAISE(auto field, arrow::ImportField(schema));
  ARROW_ASSIGN_OR_RAISE(auto imported, arrow::ImportDeviceArray(array, field->type(), Mapper));
  const auto data = slices ? WithBuffers(*imported->data(), SliceOfAll) : imported->data();
  imported.reset();
  ARROW_RETURN_NOT_OK(arrow::ExportDeviceArray(*arrow::MakeArray(data), EventOf(*data), out_array));
  return arrow::ExportField(*field, out_schema);
}

Status ForwardBatch(ArrowSchema* schema, ArrowDeviceArray* array, ArrowSchema* out_schema, ArrowDeviceArray* out_array,
                    bool views) {
  ARROW_ASSIGN_OR_RAISE(auto batch, arrow::ImportDeviceRecordBatch(array, schema, Mapper));
  if (views) {
    ARROW_ASSIGN_OR_RAISE(auto manager, Device());
    ARROW_ASSIGN_OR_RAISE(batch, batch->ViewOrCopyTo(manager));
  }
  return arrow::ExportDeviceRecordBatch(*batch, batch->GetSyncEvent(), out_array, out_schema);
}

Status CopyBatch(ArrowSchema* schema, ArrowDeviceArray* array, bool waits) {
  ARROW_ASSIGN_OR_RAISE(auto imported, arrow::ImportDeviceRecordBatch(array, schema, Mapper));
  std::vector<DataPtr> columns;
  for (const auto& column : imported->column_data()) columns.push_back(WithBuffers(*column, SameMemory));
  const auto event = imported->GetSyncEvent();
  const auto batch = RecordBatch::Make(imported->schema(), imported->num_rows(), columns, imported->device_type(), event);
  if (waits && event != nullptr) ARROW_RETURN_NOT_OK(event->Wait());
  ARROW_ASSIGN_OR_RAISE(auto here, batch->CopyTo(arrow::default_cpu_memory_manager()));
  return here->ValidateFull();
}

}  // namespace

extern "C" {

int adf_cpp_use_checked(const ArrowDeviceCheckContext* context) {
  static const Status registered = Register();
  if (!registered.ok()) return Remember(registered);
  // The table above is handed it back.
  auto* device = const_cast<ArrowDeviceCheckContext*>(context);
  return adf_cpp_use_sim(&functions, reinterpret_cast<ArrowDeviceSim*>(device));
}

int adf_cpp_forward(ArrowSchema* schema, ArrowDeviceArray* array, ArrowSchema* out_schema, ArrowDeviceArray* out_array) {
  return guarded([&]() -> Status { return Forward(schema, array, out_schema, out_array, false); });
}

int adf_cpp_forward_slices(ArrowSchema* schema, ArrowDeviceArray* array, ArrowSchema* out_schema,
                           ArrowDeviceArray* out_array) {
  return guarded([&]() -> Status { return Forward(schema, array, out_schema, out_array, true); });
}

int adf_cpp_forward_batch(ArrowSchema* schema, ArrowDeviceArray* array, ArrowSchema* out_schema,
                          ArrowDeviceArray* out_array) {
  return guarded([&]() -> Status { return ForwardBatch(schema, array, out_schema, out_array, false); });
}

int adf_cpp_forward_view(ArrowSchema* schema, ArrowDeviceArray* array, ArrowSchema* out_schema,
                         ArrowDeviceArray* out_array) {
  return guarded([&]() -> Status { return ForwardBatch(schema, array, out_schema, out_array, true); });
}

int adf_cpp_copy_batch(ArrowSchema* schema, ArrowDeviceArray* array) {
  return guarded([&]() -> Status { return CopyBatch(schema, array, false); });
}

int adf_cpp_wait_and_copy_batch(ArrowSchema* schema, ArrowDeviceArray* array) {
  return guarded([&]() -> Status { return CopyBatch(schema, array, true); });
}

}  // extern "C"
