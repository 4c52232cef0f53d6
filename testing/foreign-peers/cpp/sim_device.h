// The software device as a device of Arrow C++, written against sim_c.h alone.
#pragma once

#include <arrow/device.h>

#include "arrow_cpp.h"

namespace sim {

// The device and its memory. Copies are done when a function returns, unless it is told to only
// submit them.
class Manager : public arrow::MemoryManager {
 public:
  static arrow::Result<std::shared_ptr<Manager>> Open(const AdfSimFunctions& functions, ArrowDeviceSim* sim);
  ~Manager() override;

  // From now on copies to the device are submitted and not waited for.
  void OnlySubmit(bool on) { only_submit_ = on; }
  // Waits for all that was submitted.
  void Finish() { functions_.synchronize(sim_, queue_); }
  // An event behind all that was submitted.
  arrow::Result<std::shared_ptr<arrow::Device::SyncEvent>> Record();

  arrow::Result<std::shared_ptr<arrow::io::RandomAccessFile>> GetBufferReader(
      std::shared_ptr<arrow::Buffer> buffer) override;
  arrow::Result<std::shared_ptr<arrow::io::OutputStream>> GetBufferWriter(
      std::shared_ptr<arrow::Buffer> buffer) override;
  arrow::Result<std::unique_ptr<arrow::Buffer>> AllocateBuffer(int64_t size) override;
  arrow::Result<std::shared_ptr<arrow::Device::SyncEvent>> WrapDeviceSyncEvent(
      void* event, arrow::Device::SyncEvent::release_fn_t release) override;

  const AdfSimFunctions& functions() const { return functions_; }
  ArrowDeviceSim* sim() const { return sim_; }
  arrow::Status Check(int code) const;

 protected:
  arrow::Result<std::shared_ptr<arrow::Buffer>> CopyBufferFrom(
      const std::shared_ptr<arrow::Buffer>& buffer, const std::shared_ptr<arrow::MemoryManager>& from) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> CopyBufferTo(
      const std::shared_ptr<arrow::Buffer>& buffer, const std::shared_ptr<arrow::MemoryManager>& to) override;

 private:
  Manager(const std::shared_ptr<arrow::Device>& device, const AdfSimFunctions& functions, ArrowDeviceSim* sim)
      : MemoryManager(device), functions_(functions), sim_(sim) {}

  const AdfSimFunctions functions_;
  ArrowDeviceSim* const sim_;
  void* queue_ = nullptr;
  bool only_submit_ = false;
};

}  // namespace sim
