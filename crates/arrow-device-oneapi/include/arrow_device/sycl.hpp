// Copyright the arrow-device authors. SPDX-License-Identifier: Apache-2.0
//
// The table of SYCL functions that the oneAPI device of arrow-device calls, filled from the SYCL
// runtime that this program is built with. A C++ engine has a SYCL runtime and no dpctl; it fills
// the table and gives it to the library before the library opens or lists a device:
//
//     arrow_device::sycl::functions table = arrow_device::sycl::make_functions();
//
// In Rust the struct is `arrow_device_oneapi::Functions`, which `use_functions` takes.
//
// An object is a pointer to a SYCL object (`sycl::queue*`, `sycl::event*`). No function of the
// table throws: where SYCL throws, a function returns a null pointer, an empty answer, or the
// status 0 (unknown). The functions may be called on any thread, and on several at once.
//
// The header needs C++17 and DPC++'s <sycl/sycl.hpp>, with any C++ compiler: there is no kernel.

#ifndef ARROW_DEVICE_SYCL_HPP
#define ARROW_DEVICE_SYCL_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <sycl/sycl.hpp>

namespace arrow_device {
namespace sycl {

extern "C" {

/// The functions, in the order and with the types that `arrow_device_oneapi::Functions` has.
struct functions {
  std::size_t size;
  void* (*list_devices)(int which);
  std::size_t (*list_length)(void* list);
  void* (*list_device)(void* list, std::size_t index);
  void (*list_delete)(void* list);
  int (*device_position)(void* device, int which);
  void* (*device_context)(void* device);
  const char* (*device_name)(void* device);
  const char* (*device_version)(void* device);
  void (*text_delete)(const char* text);
  std::uint64_t (*device_memory)(void* device);
  bool (*device_has)(void* device, int aspect);
  int (*device_backend)(void* device);
  void (*device_delete)(void* device);
  bool (*context_equals)(void* one, void* other);
  void (*context_delete)(void* context);
  void* (*queue_create)(void* context, void* device, void (*handler)(int), int properties);
  void* (*queue_context)(void* queue);
  void* (*queue_device)(void* queue);
  bool (*queue_is_in_order)(void* queue);
  void* (*queue_copy)(void* queue);
  std::size_t (*queue_hash)(void* queue);
  void (*queue_delete)(void* queue);
  void* (*copy)(void* queue, void* to, const void* from, std::size_t bytes, void* const* events,
                std::size_t count);
  void* (*barrier)(void* queue);
  void* (*barrier_for)(void* queue, void* const* events, std::size_t count);
  int (*event_status)(void* event);
  void* (*event_copy)(void* event);
  void (*event_delete)(void* event);
  void* (*allocate_device)(std::size_t alignment, std::size_t bytes, void* queue);
  void* (*allocate_host)(std::size_t alignment, std::size_t bytes, void* queue);
  void* (*allocate_shared)(std::size_t alignment, std::size_t bytes, void* queue);
  void (*free)(void* memory, void* context);
  int (*memory_kind)(const void* memory, void* context);
};

}  // extern "C"

namespace detail {

// The namespace of SYCL itself, which the namespace of this header hides.
namespace api = ::sycl;

template <typename T>
T& at(void* object) {
  return *static_cast<T*>(object);
}

/// What `call` returns, or `otherwise` where SYCL throws.
template <typename Call, typename Result>
Result or_else(Result otherwise, Call call) noexcept {
  try {
    return call();
  } catch (...) {
    return otherwise;
  }
}

/// A copy of an object that is the caller's, or null where SYCL throws.
template <typename Call>
void* made(Call call) noexcept {
  return or_else(static_cast<void*>(nullptr), [&]() -> void* {
    auto object = call();
    return new decltype(object)(std::move(object));
  });
}

template <typename T>
void deleted(void* object) noexcept {
  or_else(false, [&] {
    delete static_cast<T*>(object);
    return true;
  });
}

/// Root devices in the order of their ids: all devices that the default selector does not reject.
inline std::vector<api::device> devices() {
  std::vector<api::device> chosen;
  for (const api::device& device : api::device::get_devices()) {
    if (api::default_selector_v(device) >= 0) chosen.push_back(device);
  }
  return chosen;
}

inline const char* text(const std::string& text) {
  char* copy = new char[text.size() + 1];
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

/// The aspects that the library asks for, by dpctl's numbers.
inline bool has(const api::device& device, int aspect) {
  switch (aspect) {
    case 1:
      return device.has(api::aspect::cpu);
    case 12:
      return device.has(api::aspect::usm_device_allocations);
    case 13:
      return device.has(api::aspect::usm_host_allocations);
    case 14:
      return device.has(api::aspect::usm_shared_allocations);
    case 17:
      return device.has(api::aspect::usm_atomic_shared_allocations);
    default:
      return false;
  }
}

inline int status(const api::event& event) {
  switch (event.get_info<api::info::event::command_execution_status>()) {
    case api::info::event_command_status::submitted:
      return 1;
    case api::info::event_command_status::running:
      return 2;
    case api::info::event_command_status::complete:
      return 3;
    case api::info::event_command_status::ext_oneapi_unknown:
      return 0;
    default:
      // A backend's code of an error: the work is over and has failed.
      return -1;
  }
}

inline void* allocate(std::size_t alignment, std::size_t bytes, void* queue, api::usm::alloc kind) {
  return or_else(static_cast<void*>(nullptr), [&]() -> void* {
    return api::aligned_alloc(alignment, bytes, at<api::queue>(queue), kind);
  });
}

}  // namespace detail

/// The table for the SYCL runtime of this program.
inline functions make_functions() {
  namespace api = ::sycl;
  using namespace detail;
  functions table{};
  table.size = sizeof(functions);
  table.list_devices = [](int) { return made([] { return devices(); }); };
  table.list_length = [](void* list) { return at<std::vector<api::device>>(list).size(); };
  table.list_device = [](void* list, std::size_t index) {
    return made([&] { return at<std::vector<api::device>>(list).at(index); });
  };
  table.list_delete = [](void* list) { deleted<std::vector<api::device>>(list); };
  table.device_position = [](void* device, int) {
    return or_else(-1, [&] {
      const std::vector<api::device> all = devices();
      const auto found = std::find(all.begin(), all.end(), at<api::device>(device));
      return found == all.end() ? -1 : static_cast<int>(found - all.begin());
    });
  };
  // The default context of the platform is the one that a queue of the device takes.
  table.device_context = [](void* device) {
    return made([&] { return api::queue(at<api::device>(device)).get_context(); });
  };
  table.device_name = [](void* device) {
    return or_else(static_cast<const char*>(nullptr), [&] {
      return text(at<api::device>(device).get_info<api::info::device::name>());
    });
  };
  table.device_version = [](void* device) {
    return or_else(static_cast<const char*>(nullptr), [&] {
      return text(at<api::device>(device).get_info<api::info::device::driver_version>());
    });
  };
  table.text_delete = [](const char* text) { delete[] text; };
  table.device_memory = [](void* device) {
    return or_else(std::uint64_t{0}, [&]() -> std::uint64_t {
      return at<api::device>(device).get_info<api::info::device::global_mem_size>();
    });
  };
  table.device_has = [](void* device, int aspect) {
    return or_else(false, [&] { return has(at<api::device>(device), aspect); });
  };
  table.device_backend = [](void* device) {
    return or_else(0, [&] {
      const bool is_opencl = at<api::device>(device).get_backend() == api::backend::opencl;
      return is_opencl ? 1 << 18 : 0;
    });
  };
  table.device_delete = [](void* device) { deleted<api::device>(device); };
  table.context_equals = [](void* one, void* other) {
    return or_else(false, [&] { return at<api::context>(one) == at<api::context>(other); });
  };
  table.context_delete = [](void* context) { deleted<api::context>(context); };
  table.queue_create = [](void* context, void* device, void (*)(int), int properties) {
    return made([&] {
      const bool in_order = (properties & 2) != 0;
      const api::property_list list = in_order
                                          ? api::property_list{api::property::queue::in_order{}}
                                          : api::property_list{};
      return api::queue(at<api::context>(context), at<api::device>(device), list);
    });
  };
  table.queue_context = [](void* queue) {
    return made([&] { return at<api::queue>(queue).get_context(); });
  };
  table.queue_device = [](void* queue) {
    return made([&] { return at<api::queue>(queue).get_device(); });
  };
  table.queue_is_in_order = [](void* queue) {
    return or_else(false, [&] { return at<api::queue>(queue).is_in_order(); });
  };
  table.queue_copy = [](void* queue) {
    return made([&] { return api::queue(at<api::queue>(queue)); });
  };
  table.queue_hash = [](void* queue) {
    return or_else(std::size_t{0}, [&] { return std::hash<api::queue>{}(at<api::queue>(queue)); });
  };
  table.queue_delete = [](void* queue) { deleted<api::queue>(queue); };
  table.copy = [](void* queue, void* to, const void* from, std::size_t bytes, void* const* events,
                  std::size_t count) {
    return made([&] {
      std::vector<api::event> before;
      for (std::size_t index = 0; index < count; ++index) {
        before.push_back(at<api::event>(events[index]));
      }
      return at<api::queue>(queue).memcpy(to, from, bytes, before);
    });
  };
  table.barrier = [](void* queue) {
    return made([&] { return at<api::queue>(queue).ext_oneapi_submit_barrier(); });
  };
  // A barrier behind all earlier work and these events. The queue's function
  // ext_oneapi_submit_barrier with events makes a barrier that waits for the events alone.
  table.barrier_for = [](void* queue, void* const* events, std::size_t count) {
    return made([&] {
      return at<api::queue>(queue).submit([&](api::handler& handler) {
        for (std::size_t index = 0; index < count; ++index) {
          handler.depends_on(at<api::event>(events[index]));
        }
        handler.ext_oneapi_barrier();
      });
    });
  };
  table.event_status = [](void* event) {
    return or_else(0, [&] { return status(at<api::event>(event)); });
  };
  table.event_copy = [](void* event) {
    return made([&] { return api::event(at<api::event>(event)); });
  };
  table.event_delete = [](void* event) { deleted<api::event>(event); };
  table.allocate_device = [](std::size_t alignment, std::size_t bytes, void* queue) {
    return allocate(alignment, bytes, queue, api::usm::alloc::device);
  };
  table.allocate_host = [](std::size_t alignment, std::size_t bytes, void* queue) {
    return allocate(alignment, bytes, queue, api::usm::alloc::host);
  };
  table.allocate_shared = [](std::size_t alignment, std::size_t bytes, void* queue) {
    return allocate(alignment, bytes, queue, api::usm::alloc::shared);
  };
  table.free = [](void* memory, void* context) {
    or_else(false, [&] {
      api::free(memory, at<api::context>(context));
      return true;
    });
  };
  table.memory_kind = [](const void* memory, void* context) {
    return or_else(0, [&] {
      switch (api::get_pointer_type(memory, at<api::context>(context))) {
        case api::usm::alloc::device:
          return 1;
        case api::usm::alloc::shared:
          return 2;
        case api::usm::alloc::host:
          return 3;
        default:
          return 0;
      }
    });
  };
  return table;
}

}  // namespace sycl
}  // namespace arrow_device

#endif  // ARROW_DEVICE_SYCL_HPP
