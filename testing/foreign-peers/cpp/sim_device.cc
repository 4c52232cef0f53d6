#include "sim_device.h"

#include <arrow/api.h>

#include <cstring>

namespace sim {
namespace {

using arrow::Buffer;
using arrow::Result;
using arrow::Status;
using SyncEvent = arrow::Device::SyncEvent;

class SimDevice : public arrow::Device {
 public:
  explicit SimDevice(int64_t id) : Device(/*is_cpu=*/false), id_(id) {}
  const char* type_name() const override { return "software device"; }
  std::string ToString() const override { return "software device " + std::to_string(id_); }
  bool Equals(const Device& other) const override {
    return other.device_type() == device_type() && other.device_id() == id_;
  }
  int64_t device_id() const override { return id_; }
  arrow::DeviceAllocationType device_type() const override { return arrow::DeviceAllocationType::kEXT_DEV; }
  // The manager knows its device, so the device cannot keep a manager.
  std::shared_ptr<arrow::MemoryManager> default_memory_manager() override { return nullptr; }

 private:
  const int64_t id_;
};

class SimEvent : public SyncEvent {
 public:
  SimEvent(void* event, release_fn_t release) : SyncEvent(event, std::move(release)) {}
  Status Wait() override {
    const auto* event = static_cast<const ArrowDeviceSimEvent*>(get_raw());
    if (event == nullptr) return Status::OK();
    if (event->magic != ARROW_DEVICE_SIM_EVENT_MAGIC) return Status::Invalid("not an event of a software device");
    const int code = event->wait(event, -1);
    return code == 0 ? Status::OK() : Status::IOError("the wait for an event failed with ", code);
  }
  Status Record(const arrow::Device::Stream&) override { return Status::NotImplemented("there are no streams"); }
};

// Memory of the device, and what it is filled from as long as that may be read.
class SimBuffer : public Buffer {
 public:
  SimBuffer(void* memory, int64_t size, std::shared_ptr<Manager> manager)
      : Buffer(static_cast<const uint8_t*>(memory), size, manager, nullptr), manager_(std::move(manager)) {}
  ~SimBuffer() override {
    // Where nobody waited for the copy, as after an export that failed, its source has to stay
    // until it is over.
    if (source_ != nullptr) manager_->Finish();
    manager_->functions().free(manager_->sim(), memory(), static_cast<uint64_t>(size_));
  }
  void* memory() const { return const_cast<uint8_t*>(data_); }
  void FilledFrom(std::shared_ptr<Buffer> source) { source_ = std::move(source); }

 private:
  std::shared_ptr<Manager> manager_;
  std::shared_ptr<Buffer> source_;
};

}  // namespace

Result<std::shared_ptr<Manager>> Manager::Open(const AdfSimFunctions& functions, ArrowDeviceSim* sim) {
  auto device = std::make_shared<SimDevice>(functions.device_id(sim));
  std::shared_ptr<Manager> manager(new Manager(device, functions, sim));
  ARROW_RETURN_NOT_OK(manager->Check(functions.open_queue(sim, &manager->queue_)));
  return manager;
}

Manager::~Manager() {
  if (queue_ != nullptr) functions_.close_queue(sim_, queue_);
}

Status Manager::Check(int code) const {
  return code == 0 ? Status::OK() : Status::IOError("the software device: ", functions_.last_error());
}

Result<std::shared_ptr<SyncEvent>> Manager::Record() {
  ArrowDeviceSimEvent* event = nullptr;
  ARROW_RETURN_NOT_OK(Check(functions_.record(sim_, queue_, &event)));
  auto self = std::static_pointer_cast<Manager>(shared_from_this());
  return std::make_shared<SimEvent>(event, [self](void* raw) {
    self->functions_.destroy_event(self->sim_, static_cast<ArrowDeviceSimEvent*>(raw));
  });
}

Result<std::shared_ptr<arrow::io::RandomAccessFile>> Manager::GetBufferReader(std::shared_ptr<Buffer>) {
  return Status::NotImplemented("no readers");
}

Result<std::shared_ptr<arrow::io::OutputStream>> Manager::GetBufferWriter(std::shared_ptr<Buffer>) {
  return Status::NotImplemented("no writers");
}

Result<std::unique_ptr<Buffer>> Manager::AllocateBuffer(int64_t size) {
  void* memory = nullptr;
  ARROW_RETURN_NOT_OK(Check(functions_.allocate(sim_, static_cast<uint64_t>(size), &memory)));
  auto self = std::static_pointer_cast<Manager>(shared_from_this());
  return std::make_unique<SimBuffer>(memory, size, self);
}

Result<std::shared_ptr<SyncEvent>> Manager::WrapDeviceSyncEvent(void* event, SyncEvent::release_fn_t release) {
  return std::make_shared<SimEvent>(event, std::move(release));
}

Result<std::shared_ptr<Buffer>> Manager::CopyBufferFrom(const std::shared_ptr<Buffer>& buffer,
                                                        const std::shared_ptr<arrow::MemoryManager>& from) {
  if (!from->is_cpu()) return nullptr;
  ARROW_ASSIGN_OR_RAISE(auto copy, AllocateBuffer(buffer->size()));
  auto& filled = static_cast<SimBuffer&>(*copy);
  if (buffer->size() > 0) {
    const auto size = static_cast<uint64_t>(buffer->size());
    ARROW_RETURN_NOT_OK(Check(functions_.copy_to_device(sim_, queue_, filled.memory(), buffer->data(), size)));
    if (only_submit_) {
      filled.FilledFrom(buffer);
    } else {
      ARROW_RETURN_NOT_OK(Check(functions_.synchronize(sim_, queue_)));
    }
  }
  return std::shared_ptr<Buffer>(std::move(copy));
}

Result<std::shared_ptr<Buffer>> Manager::CopyBufferTo(const std::shared_ptr<Buffer>& buffer,
                                                      const std::shared_ptr<arrow::MemoryManager>& to) {
  if (!to->is_cpu()) return nullptr;
  ARROW_ASSIGN_OR_RAISE(auto copy, to->AllocateBuffer(buffer->size()));
  if (auto event = buffer->device_sync_event()) ARROW_RETURN_NOT_OK(event->Wait());
  if (buffer->size() > 0) {
    const auto* address = reinterpret_cast<const void*>(buffer->address());
    const auto size = static_cast<uint64_t>(buffer->size());
    ARROW_RETURN_NOT_OK(Check(functions_.copy_to_host(sim_, queue_, copy->mutable_data(), address, size)));
    ARROW_RETURN_NOT_OK(Check(functions_.synchronize(sim_, queue_)));
  }
  return std::shared_ptr<Buffer>(std::move(copy));
}

}  // namespace sim
