// arrow-device for C++17: the objects of arrow_device.h as classes, in headers alone, over the
// library in C.
//
//   c++ -std=c++17 program.cpp $(pkg-config --cflags --libs arrow-device)
//
// A consumer that was handed two C structs:
//
//   using namespace arrow_device;
//   Array array = Array::import_from(&c_array, Schema::import_from(&c_schema));  // reads no data
//   View view = array.view(queue);                                               // the queue waits
//   submit(view.buffer(1));                                                      // your work
//   // `view` ends: all is submitted. `array` ends: it is released when the queue is done with it.
//
// The rules of arrow_device.h hold. In C++ they read:
//
// 1. Errors. A function that can fail returns `Outcome<T>`. With exceptions, `Outcome<T>` is T, and
//    the function throws an Error. With ARROW_DEVICE_NO_EXCEPTIONS it is Result<T>, a value or an
//    Error, and nothing throws: there, write `auto` for the type and `*` for the value. Both forms
//    have the same functions.
//
// 2. Objects. An object has one owner: it can be moved but not copied, and is freed at the end of
//    its scope, in any order. An array, queue or event that something else still needs is kept.
//    `get()` returns the object for functions in C, and a constructor takes over an object that
//    they returned. Functions refuse a moved-from object (EINVAL).
//
// 3. C structs that are passed to `import_from` are taken over, also when the call fails. Structs
//    that `export_to` writes belong to the caller. `exported` returns an owner of the struct, which
//    releases the struct unless it was handed on.
//
// 4. Threads. Const functions can be called on any thread, also on several threads at once; calls
//    of HostView and Stream take turns. A callable that is passed to a function may be called on
//    any thread, is destroyed when the library no longer needs it, and may throw: the exception
//    becomes the error of the call that called it, and no exception crosses C.
//
// 5. Waiting. Where a queue is asked for, `host` stands for the host, which then waits.
//
// The constants, the structs of plain values and the types of devices are those of arrow_device.h.

#ifndef ARROW_DEVICE_ARROW_DEVICE_HPP_
#define ARROW_DEVICE_ARROW_DEVICE_HPP_

#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

#include "result.hpp"

namespace arrow_device {
inline namespace ARROW_DEVICE_FORM {

using DeviceInfo = ardev_device_info;
using Held = ardev_held;
using Place = ardev_place;
using ArrayInfo = ardev_array_info;
using TensorInfo = ardev_tensor_info;

class Queue;
class Event;
class View;
class HostView;
class Tensor;
struct Shared;

// A time that never ends.
inline constexpr std::chrono::nanoseconds forever{-1};

// The version of the library: major * 65536 + minor.
[[nodiscard]] inline uint32_t version() noexcept { return ardev_version(); }

// --------------------------------------------------------------------------------------- C structs

namespace detail {

template <typename T>
void release_struct(T& c_struct) noexcept {
  if (c_struct.release != nullptr) c_struct.release(&c_struct);
}
inline void release_struct(ArrowDeviceArray& c_struct) noexcept { release_struct(c_struct.array); }
template <typename T>
void forget_struct(T& c_struct) noexcept {
  c_struct.release = nullptr;
}
inline void forget_struct(ArrowDeviceArray& c_struct) noexcept { c_struct.array.release = nullptr; }

struct Delete {
  template <typename T>
  void operator()(T* c_tensor) const noexcept {
    if (c_tensor->deleter != nullptr) c_tensor->deleter(c_tensor);
  }
};

}  // namespace detail

// The owner of an ArrowSchema, ArrowArray, ArrowDeviceArray, ArrowArrayStream or
// ArrowDeviceArrayStream: releases it at the end, unless it was handed on.
template <typename T>
class [[nodiscard]] Exported {
 public:
  Exported() noexcept : c_struct_() {}
  // Takes over what is in the struct, and marks it as released.
  explicit Exported(T* c_struct) noexcept : c_struct_(*c_struct) { detail::forget_struct(*c_struct); }
  Exported(Exported&& other) noexcept : Exported(&other.c_struct_) {}
  Exported& operator=(Exported&& other) noexcept {
    T c_struct = other.c_struct_;
    detail::forget_struct(other.c_struct_);
    detail::release_struct(c_struct_);
    c_struct_ = c_struct;
    return *this;
  }
  ~Exported() { detail::release_struct(c_struct_); }

  // For a function that takes the struct over, or one that fills it.
  [[nodiscard]] T* get() noexcept { return &c_struct_; }
  [[nodiscard]] const T& operator*() const noexcept { return c_struct_; }
  [[nodiscard]] const T* operator->() const noexcept { return &c_struct_; }
  // Hands the struct on. `out` is overwritten and not released first.
  void move_to(T* out) noexcept {
    *out = c_struct_;
    detail::forget_struct(c_struct_);
  }

 private:
  T c_struct_;
};

// The owner of a tensor of DLPack: calls its deleter, unless it was handed on with `release()`.
using DlpackTensor = std::unique_ptr<DLManagedTensorVersioned, detail::Delete>;
using LegacyDlpackTensor = std::unique_ptr<DLManagedTensor, detail::Delete>;

// ----------------------------------------------------------------------------------------- devices

// Which kind of memory is allocated, on types of device that have several.
enum class Memory : int32_t {
  automatic = ARDEV_MEMORY_AUTOMATIC,
  svm = ARDEV_MEMORY_SVM,
  host_visible = ARDEV_MEMORY_HOST_VISIBLE,
  device_only = ARDEV_MEMORY_DEVICE_ONLY,
  usm_host = ARDEV_MEMORY_USM_HOST,
  usm_shared = ARDEV_MEMORY_USM_SHARED
};

class Device : public detail::Owner<ardev_device, ardev_device_free> {
 public:
  using Owner::Owner;

  // The devices that can be opened, and for each other type the reason why not: there `status` is
  // not 0.
  [[nodiscard]] static Outcome<std::vector<DeviceInfo>> list() { return detail::outcome(try_list()); }

  // Opens a device. For ARROW_DEVICE_CPU the id does not matter.
  [[nodiscard]] static Outcome<Device> open(ArrowDeviceType device_type, int64_t device_id = 0,
                                            Memory memory = Memory::automatic) {
    return detail::outcome(detail::made<Device>([&](auto out, auto error) {
      return ardev_device_open_with(device_type, device_id, static_cast<int32_t>(memory), out, error);
    }));
  }
  // The first device of the list that is not the host, or the host.
  [[nodiscard]] static Outcome<Device> open_any() { return detail::outcome(try_open_any()); }
  // A device of a context that the application made.
  [[nodiscard]] static Outcome<Device> open_in(ArrowDeviceType device_type, void* context, void* device,
                                               Memory memory = Memory::automatic) {
    return detail::outcome(detail::made<Device>([&](auto out, auto error) {
      return ardev_device_open_in(device_type, context, device, static_cast<int32_t>(memory), out, error);
    }));
  }
  // The device of an array that somebody else made.
  [[nodiscard]] static Outcome<Device> open_for(ArrowDeviceType device_type, const void* memory, int64_t device_id) {
    return detail::outcome(detail::made<Device>(
        [&](auto out, auto error) { return ardev_device_open_for(device_type, memory, device_id, out, error); }));
  }
  // A Vulkan device of the application's; `release` is called when nothing of the device is left.
  template <typename F>
  [[nodiscard]] static Outcome<Device> open_vulkan(const ardev_vulkan_handles& handles,
                                                   Span<const ardev_vulkan_queue> queues, Memory memory, F release) {
    return detail::outcome(detail::made<Device>([&](auto out, auto error) {
      return ardev_device_open_vulkan(&handles, queues.data(), queues.size(), static_cast<int32_t>(memory),
                                      detail::kept(std::move(release)), detail::call_and_delete<F>, out, error);
    }));
  }
  // The oneAPI device of a `sycl::queue` of the application's, in the context of that queue.
  [[nodiscard]] static Outcome<Device> open_oneapi(void* queue, Memory memory = Memory::automatic) {
    return detail::outcome(detail::made<Device>([&](auto out, auto error) {
      return ardev_device_open_oneapi(queue, static_cast<int32_t>(memory), out, error);
    }));
  }
  // Takes the table that `arrow_device::sycl::make_functions` returns, before a oneAPI device is
  // opened or listed.
  template <typename Table>
  static Outcome<void> use_oneapi_functions(const Table& table) {
    return detail::outcome(
        detail::done([&](auto error) { return ardev_oneapi_use_functions(&table, sizeof(Table), error); }));
  }
  // A device that is open in this process, whoever opened it.
  [[nodiscard]] static Outcome<Device> find(ArrowDeviceType device_type, int64_t device_id) {
    return detail::outcome(detail::made<Device>(
        [&](auto out, auto error) { return ardev_device_find(device_type, device_id, out, error); }));
  }
  // A device of the program's own: driver.h has the table.
  [[nodiscard]] static Outcome<Device> register_driver(const ardev_driver& driver) {
    return detail::outcome(
        detail::made<Device>([&](auto out, auto error) { return ardev_device_register(&driver, out, error); }));
  }

  [[nodiscard]] Outcome<DeviceInfo> info() const {
    return detail::outcome(
        detail::told<DeviceInfo>([&](auto out, auto error) { return ardev_device_inspect(get(), out, error); }));
  }
  // Fails with a report if the device has seen mistakes of the program. Only the software device
  // looks for mistakes.
  Outcome<void> check_mistakes() const {
    return detail::outcome(detail::done([&](auto error) { return ardev_device_mistakes(get(), error); }));
  }
  // The bytes that this process holds of the device.
  [[nodiscard]] Outcome<Held> held() const {
    return detail::outcome(
        detail::told<Held>([&](auto out, auto error) { return ardev_device_held(get(), out, error); }));
  }
  Outcome<void> count_exchanges() const {
    return detail::outcome(detail::done([&](auto error) { return ardev_device_count_exchanges(get(), error); }));
  }
  // The same device with this allocator, which is copied.
  [[nodiscard]] Outcome<Device> with_allocator(const ardev_allocator& allocator) const {
    return detail::outcome(detail::made<Device>(
        [&](auto out, auto error) { return ardev_device_with_allocator(get(), &allocator, out, error); }));
  }
  // The same device, with memory that other processes can open.
  [[nodiscard]] Outcome<Device> shareable() const {
    return detail::outcome(
        detail::made<Device>([&](auto out, auto error) { return ardev_device_shareable(get(), out, error); }));
  }
  [[nodiscard]] Outcome<ardev_vulkan_handles> vulkan_handles() const {
    return detail::outcome(detail::told<ardev_vulkan_handles>(
        [&](auto out, auto error) { return ardev_device_vulkan_handles(get(), out, error); }));
  }
  [[nodiscard]] Outcome<Queue> open_queue() const;

 private:
  static Result<std::vector<DeviceInfo>> try_list() {
    std::vector<DeviceInfo> infos;
    for (size_t capacity = 64;; capacity *= 2) {
      infos.assign(capacity, sized<DeviceInfo>());
      auto count = detail::told<size_t>(
          [&](auto out, auto error) { return ardev_device_list(infos.data(), capacity, out, error); });
      if (!count) return count.error();
      if (*count <= capacity) {
        infos.resize(*count);
        return infos;
      }
    }
  }
  static Result<Device> try_open_any() {
    auto infos = try_list();
    if (!infos) return infos.error();
    ArrowDeviceType device_type = ARROW_DEVICE_CPU;
    int64_t device_id = -1;
    for (const DeviceInfo& info : *infos) {
      if (info.status == 0 && info.device_type != ARROW_DEVICE_CPU) {
        device_type = info.device_type;
        device_id = info.device_id;
        break;
      }
    }
    return detail::made<Device>(
        [&](auto out, auto error) { return ardev_device_open(device_type, device_id, out, error); });
  }
};

// A lane of work on a device: work that is submitted later does not start before earlier work is
// done.
class Queue : public detail::Owner<ardev_queue, ardev_queue_free> {
 public:
  using Owner::Owner;

  // A queue that the application opened; the queue has to stay open until `release` is called.
  template <typename F>
  [[nodiscard]] static Outcome<Queue> adopt(const Device& device, void* handle, F release) {
    return detail::outcome(detail::made<Queue>([&](auto out, auto error) {
      return ardev_queue_adopt(device.get(), handle, detail::kept(std::move(release)), detail::call_and_delete<F>, out,
                               error);
    }));
  }

  // The driver's handle, valid as long as the queue.
  [[nodiscard]] Outcome<void*> handle() const {
    return detail::outcome(
        detail::told<void*>([&](auto out, auto error) { return ardev_queue_handle(get(), out, error); }));
  }
  // Calls `work` once, while nobody else submits to the queue. `work` returns 0 or an errno value,
  // and must not call this library.
  template <typename F>
  Outcome<void> submit(F work) const {
    return detail::outcome(detail::done([&](auto error) {
      auto call = [](void* context) { return detail::guarded(nullptr, *static_cast<F*>(context)); };
      return ardev_queue_submit(get(), call, &work, error);
    }));
  }
  // An event behind all work that was submitted to the queue so far.
  [[nodiscard]] Outcome<Event> record() const;
  // Makes the queue wait for the event.
  Outcome<void> wait(const Event& event) const;
  // Waits until the queue has finished everything.
  Outcome<void> synchronize() const {
    return detail::outcome(detail::done([&](auto error) { return ardev_queue_synchronize(get(), error); }));
  }
  [[nodiscard]] Outcome<bool> is_idle() const {
    return detail::outcome(
        detail::told<bool>([&](auto out, auto error) { return ardev_queue_is_idle(get(), out, error); }));
  }
  [[nodiscard]] Outcome<uint32_t> vulkan_family() const {
    return detail::outcome(
        detail::told<uint32_t>([&](auto out, auto error) { return ardev_queue_vulkan_family(get(), out, error); }));
  }
};

// Stands for the host, where a queue is asked for.
struct Host {};
inline constexpr Host host{};

// Where work is done: on a queue, in its order, or on the host, which waits.
class Lane {
 public:
  Lane(Host) noexcept {}
  Lane(const Queue& queue) noexcept : queue_(queue.get()), is_empty_(!queue) {}

  [[nodiscard]] const ardev_queue* get() const noexcept { return queue_; }
  // Whether the queue is a moved-from one, which is not the host.
  [[nodiscard]] bool is_empty() const noexcept { return is_empty_; }

 private:
  const ardev_queue* queue_ = nullptr;
  bool is_empty_ = false;
};

namespace detail {

inline Error no_queue() { return refused("the queue is empty: it was moved from, or never opened"); }

// The ways to call a function in C with a lane.
template <typename F>
Result<void> done(Lane lane, F&& call) {
  return lane.is_empty() ? Result<void>(no_queue()) : done(std::forward<F>(call));
}
template <typename T, typename F>
Result<T> made(Lane lane, F&& call) {
  return lane.is_empty() ? Result<T>(no_queue()) : made<T>(std::forward<F>(call));
}
template <typename T, typename F>
Result<T> told(Lane lane, F&& call) {
  return lane.is_empty() ? Result<T>(no_queue()) : told<T>(std::forward<F>(call));
}

// A C struct that a function in C fills.
template <typename T, typename F>
Result<Exported<T>> exported(Lane lane, F&& call) {
  Exported<T> out;
  auto result = done(lane, [&](auto error) { return call(out.get(), error); });
  if (!result) return result.error();
  return out;
}

}  // namespace detail

// A point in a queue's work.
class Event : public detail::Owner<ardev_event, ardev_event_free> {
 public:
  using Owner::Owner;

  // An event that the application made; the event has to stay until `release` is called.
  template <typename F>
  [[nodiscard]] static Outcome<Event> adopt(const Device& device, void* handle, F release) {
    return detail::outcome(detail::made<Event>([&](auto out, auto error) {
      return ardev_event_adopt(device.get(), handle, detail::kept(std::move(release)), detail::call_and_delete<F>, out,
                               error);
    }));
  }

  // The driver's handle, valid as long as the event.
  [[nodiscard]] Outcome<void*> handle() const {
    return detail::outcome(
        detail::told<void*>([&](auto out, auto error) { return ardev_event_handle(get(), out, error); }));
  }
  [[nodiscard]] Outcome<bool> is_complete() const {
    return detail::outcome(
        detail::told<bool>([&](auto out, auto error) { return ardev_event_is_complete(get(), out, error); }));
  }
  // Waits until the event has passed; Kind::timed_out if it has not passed when the time is over.
  Outcome<void> wait(std::chrono::nanoseconds timeout = forever) const {
    return detail::outcome(detail::done([&](auto error) { return ardev_event_wait(get(), timeout.count(), error); }));
  }
};

inline Outcome<Queue> Device::open_queue() const {
  return detail::outcome(detail::made<Queue>([&](auto out, auto error) { return ardev_queue_open(get(), out, error); }));
}
inline Outcome<Event> Queue::record() const {
  return detail::outcome(
      detail::made<Event>([&](auto out, auto error) { return ardev_queue_record(get(), out, error); }));
}
inline Outcome<void> Queue::wait(const Event& event) const {
  return detail::outcome(detail::done([&](auto error) { return ardev_queue_wait(get(), event.get(), error); }));
}

}  // namespace ARROW_DEVICE_FORM
}  // namespace arrow_device

// Schemas, buffers, arrays, views, streams and tensors.
#include "data.hpp"

#endif  // ARROW_DEVICE_ARROW_DEVICE_HPP_
