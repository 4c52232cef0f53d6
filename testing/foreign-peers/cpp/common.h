// What the files that answer to the tests share. It is in arrow_cpp.cc, and in streams.cc what
// is said of streams.
#pragma once

#include <arrow/api.h>
#include <arrow/c/bridge.h>

#include "arrow_cpp.h"
#include "cases.h"
#include "sim_device.h"

// Keeps the text for adf_cpp_last_error, and says whether there is one.
int Remember(const arrow::Status& status);

// Runs what is behind a C function.
template <typename Body>
int guarded(Body body) {
  try {
    return Remember(body());
  } catch (const std::exception& error) {
    return Remember(arrow::Status::UnknownError("exception: ", error.what()));
  }
}

// The software device in use.
arrow::Result<std::shared_ptr<sim::Manager>> Device();
// What an import asks for the memory of a device.
arrow::Result<std::shared_ptr<arrow::MemoryManager>> Mapper(ArrowDeviceType type, int64_t id);

arrow::Status Require(bool holds, const std::string& complaint);
const arrow::EqualOptions& Strictly();
arrow::Status RequireEqual(const arrow::Array& left, const arrow::Array& right);

// An array or a batch where it can be looked at.
template <typename T>
arrow::Result<std::shared_ptr<T>> ToHost(const std::shared_ptr<T>& thing, bool is_on_host) {
  if (is_on_host) return thing;
  return thing->CopyTo(arrow::default_cpu_memory_manager());
}

// An export counts nulls that are not counted yet, which it cannot do on the device: it reads the
// bitmap on the host.
void CountNulls(const arrow::ArrayData& data);
void CountNulls(const arrow::Array& array);
void CountNulls(const arrow::RecordBatch& batch);

// Brings something to where a case is exported, and says what to wait for.
template <typename T>
arrow::Result<std::pair<T, std::shared_ptr<arrow::Device::SyncEvent>>> Place(const T& thing, int place) {
  std::shared_ptr<arrow::Device::SyncEvent> event;
  if (place == ADF_HOST) return std::make_pair(thing, event);
  CountNulls(*thing);
  ARROW_ASSIGN_OR_RAISE(auto manager, Device());
  manager->OnlySubmit(place == ADF_PENDING);
  auto copied = thing->CopyTo(manager);
  manager->OnlySubmit(false);
  ARROW_ASSIGN_OR_RAISE(auto there, copied);
  if (place == ADF_PENDING) {
    ARROW_ASSIGN_OR_RAISE(event, manager->Record());
  }
  return std::make_pair(there, event);
}

// The batches of a stream, as streams.h numbers them.
arrow::Result<arrow::RecordBatchVector> Batches(size_t number, int place);
using NextBatch = std::function<arrow::Result<std::shared_ptr<arrow::RecordBatch>>()>;
// Reads to the end, and compares with what that stream has in that place.
arrow::Status CompareBatches(const arrow::Schema& schema, const NextBatch& next, size_t number, int place);
